package kubeletnode

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
)

func TestFull(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"app:dev":             "docker.io/library/app:dev",
		"ekiden/app:dev":      "docker.io/ekiden/app:dev",
		"localhost/app:dev":   "localhost/app:dev",
		"ghcr.io/e/app:dev":   "ghcr.io/e/app:dev",
		"registry:5000/a:dev": "registry:5000/a:dev",
	}
	for name, want := range tests {
		if got := full(name); got != want {
			t.Errorf("full(%s) = %s, want %s", name, got, want)
		}
	}
}

func TestNodesDoNotMeet(t *testing.T) {
	t.Parallel()
	a, b := Config{Dir: "/clusters/a", Net: 7}, Config{Dir: "/clusters/b", Net: 8}
	if a.Host() == b.Host() || a.Address() == b.Address() || a.Pods() == b.Pods() || a.Cgroup() == b.Cgroup() {
		t.Errorf("%+v and %+v share something", a, b)
	}
	_, cable, err := net.ParseCIDR(a.Cable())
	if err != nil {
		t.Fatal(err)
	}
	if !cable.Contains(net.ParseIP(a.Host())) || !cable.Contains(net.ParseIP(a.Address())) {
		t.Errorf("%s joins neither %s nor %s", cable, a.Host(), a.Address())
	}
	if name := "devc-" + a.tag(); len(name) > 15 {
		t.Errorf("%s is too long for an interface", name)
	}
}

// TestConfigurationIsWhole reads what is written: no word of a template is left, and each file is what its reader expects.
func TestConfigurationIsWhole(t *testing.T) {
	t.Parallel()
	c := Config{Dir: cluster.Dir(t.TempDir()), Net: 7}
	if err := c.configure(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"containerd.toml", "cni/10-pods.conflist", "kubelet.yaml", "proxy.yaml"} {
		content, err := os.ReadFile(c.path(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"NODE", "SOCKET", "SANDBOX", "PLUGINS", "BRIDGE", "PODLOGS", "PODS", "ADDRESS", "PKI", "CGROUP", "NAME", "PROXYKUBECONFIG"} {
			if strings.Contains(string(content), word) {
				t.Errorf("%s: %s is left", name, word)
			}
		}
		if filepath.Ext(name) == ".toml" {
			continue
		}
		var parsed map[string]any
		if err := yaml.Unmarshal(content, &parsed); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if missing := strings.Join(missing(), " "); !strings.HasPrefix(missing, "containerd containerd-shim-runc-v2 ctr runc nft") {
		t.Errorf("missing: %s", missing)
	}
	err := Check()
	switch {
	case err == nil:
		t.Error("a machine without containerd can have a node")
	case os.Geteuid() == 0 && !strings.Contains(err.Error(), "apt-get install -y --no-install-recommends containerd runc"):
		t.Errorf("nobody is told what to install: %v", err)
	case os.Geteuid() != 0 && !strings.Contains(err.Error(), "root"):
		t.Errorf("nobody is told to be root: %v", err)
	}
}

func needed(t *testing.T) {
	t.Helper()
	if err := Check(); err != nil {
		t.Skip("SKIPPED:", err)
	}
}

func TestAnAddressInUseIsRefused(t *testing.T) {
	needed(t)
	c := Config{Dir: cluster.Dir(t.TempDir()), Net: 1}
	first, err := Connect(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Close() })
	second, err := Connect(Config{Dir: cluster.Dir(t.TempDir()), Net: 1})
	if err == nil {
		_ = second.Close()
		t.Fatal("two nodes have one network")
	}
	if !strings.Contains(err.Error(), "10.243.1.0/30 is in use") {
		t.Errorf("the error does not say what is in use: %v", err)
	}
}

func TestACgroupGoesWithAllBelowIt(t *testing.T) {
	needed(t)
	c := Config{Dir: cluster.Dir(t.TempDir())}
	if err := makeCgroup(c.Cgroup() + "/kubepods/pod"); err != nil {
		t.Fatal(err)
	}
	if err := c.RemoveCgroup(); err != nil {
		t.Error(err)
	}
	for _, root := range roots() {
		if _, err := os.Stat(root + c.Cgroup()); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", root+c.Cgroup(), err)
		}
	}
	if err := c.RemoveCgroup(); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
}

// TestTheFirstProcessCollectsItsOrphans and ends as its child does. The test plays the part of the first process.
func TestTheFirstProcessCollectsItsOrphans(t *testing.T) {
	child := exec.CommandContext(t.Context(), "/bin/sh", "-c", "exit 3")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := reap(child.Process.Pid); err == nil || !strings.Contains(err.Error(), "exit code 3") {
		t.Errorf("reap: %v", err)
	}
	if err := syscall.Kill(child.Process.Pid, 0); err != syscall.ESRCH {
		t.Errorf("the child is left: %v", err)
	}
}
