package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// binariesVariable names the folder of the server's binaries, before all others.
const binariesVariable = "EKIDEN_POSTGRES_BIN"

var errNoServer = errors.New("no Postgres server found: install the package postgresql (Debian, Ubuntu) or postgresql-server (Fedora), or set " +
	binariesVariable + " to the folder that holds initdb and postgres, or EKIDEN_TEST_DSN to the DSN of a superuser of a running server")

// binaries finds the folder that holds initdb and postgres.
func binaries() (string, error) {
	if named := os.Getenv(binariesVariable); named != "" {
		if !complete(named) {
			return "", errors.New(binariesVariable + "=" + named + " holds no initdb and postgres")
		}
		return named, nil
	}
	var folders []string
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		folders = append(folders, strings.TrimSpace(string(out)))
	}
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is good
	slices.SortFunc(versions, func(a, b string) int { return version(b) - version(a) })
	folders = append(folders, versions...)
	if path, err := exec.LookPath("postgres"); err == nil {
		folders = append(folders, filepath.Dir(path))
	}
	if i := slices.IndexFunc(folders, complete); i >= 0 {
		return folders[i], nil
	}
	return "", errNoServer
}

func version(folder string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder))) // 0 if it is none
	return n
}

// complete tells a server's folder from one of clients, where pg_config alone may be.
func complete(folder string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if s, err := os.Stat(filepath.Join(folder, name)); err != nil || s.IsDir() {
			return false
		}
	}
	return true
}
