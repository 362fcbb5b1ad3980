package postgres

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user the server runs as; nil means the one who runs us.
type account struct {
	uid, gid int
}

// serverAccount picks a user where we are root, as whom Postgres refuses to run.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(found.Uid)
		if err != nil {
			return nil, fmt.Errorf("reading the id of user %s: %w", name, err)
		}
		gid, err := strconv.Atoi(found.Gid)
		if err != nil {
			return nil, fmt.Errorf("reading the group of user %s: %w", name, err)
		}
		return &account{uid: uid, gid: gid}, nil
	}
	return nil, fmt.Errorf("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}

func (a *account) attributes() *syscall.SysProcAttr {
	if a == nil {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}}
}

// reaches says whether the account can pass through every parent of path.
func (a *account) reaches(path string) bool {
	if a == nil {
		return true
	}
	for parent := filepath.Dir(path); ; parent = filepath.Dir(parent) {
		information, err := os.Stat(parent)
		if err != nil || information.Mode().Perm()&0o001 == 0 {
			return false
		}
		if parent == filepath.Dir(parent) {
			return true
		}
	}
}
