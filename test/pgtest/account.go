package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who the server runs as; nil is ourselves. Postgres refuses to run as root.
type account struct{ uid, gid int }

func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			return nil, fmt.Errorf("reading the id of user %s: %w", name, err)
		}
		gid, err := strconv.Atoi(u.Gid)
		if err != nil {
			return nil, fmt.Errorf("reading the group of user %s: %w", name, err)
		}
		return &account{uid, gid}, nil
	}
	return nil, errors.New("Postgres does not run as root, and there is no user postgres or nobody") //nolint:staticcheck // a name
}

func (a *account) attributes() *syscall.SysProcAttr {
	s := &syscall.SysProcAttr{}
	if a != nil {
		s.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return s
}

// folder makes a folder for the server where it can reach it.
func (a *account) folder() (string, error) {
	for _, parent := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if !a.reaches(parent) {
			continue
		}
		dir, err := os.MkdirTemp(parent, "pgtest-")
		if err != nil {
			return "", err
		}
		if a == nil {
			return dir, nil
		}
		return dir, os.Chown(dir, a.uid, a.gid)
	}
	return "", errors.New("no folder for temporary files that the server's user can reach")
}

func (a *account) reaches(dir string) bool {
	if a == nil {
		return true
	}
	for ; ; dir = filepath.Dir(dir) {
		s, err := os.Stat(dir)
		if err != nil || s.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}
