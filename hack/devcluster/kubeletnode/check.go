package kubeletnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// packages are those of Debian that hold what this binary does not.
const packages = "containerd runc containernetworking-plugins nftables"

// plugins is where Debian keeps the programs that connect pods.
const plugins = "/usr/lib/cni"

// Check says what a node lacks on this machine: the rights, the programs, or what containers in containers are kept from.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("a kubelet's node needs root: run as root, or use --node process")
	}
	if missing := missing(); len(missing) > 0 {
		return errors.New("a kubelet's node lacks " + strings.Join(missing, ", ") +
			": apt-get install -y --no-install-recommends " + packages)
	}
	if err := tryNetwork(); err != nil {
		return fmt.Errorf("a kubelet's node needs a network of its own, which root may not make here: %w", err)
	}
	trial := fmt.Sprintf("/devcluster-check-%d", os.Getpid())
	if len(roots()) == 0 {
		return errors.New("a kubelet's node needs control groups: nothing is mounted at " + hierarchies)
	}
	if err := errors.Join(makeCgroup(trial), removeCgroup(trial)); err != nil {
		return fmt.Errorf("a kubelet's node needs control groups, which root may not make here: %w", err)
	}
	return nil
}

func missing() []string {
	var missing []string
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "nft"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	for _, program := range []string{"bridge", "host-local", "loopback"} {
		if path := filepath.Join(plugins, program); !executable(path) {
			missing = append(missing, path)
		}
	}
	return missing
}

func executable(path string) bool {
	information, err := os.Stat(path)
	return err == nil && information.Mode().IsRegular() && information.Mode()&0o111 != 0
}
