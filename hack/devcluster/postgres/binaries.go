// Package postgres finds a PostgreSQL server on this machine, makes its data
// directory and says how to run it.
package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// BinariesVariable names the folder of the server's binaries, before all others.
const BinariesVariable = "EKIDEN_POSTGRES_BIN"

// FindBinaries returns the folder that holds initdb and postgres.
func FindBinaries() (string, error) {
	if named := os.Getenv(BinariesVariable); named != "" {
		if !complete(named) {
			return "", fmt.Errorf("%s=%s holds no initdb and postgres", BinariesVariable, named)
		}
		return named, nil
	}
	if folder, err := firstComplete(installed()); err == nil {
		return folder, nil
	}
	folder, err := fetch()
	if err != nil {
		return "", fmt.Errorf("no PostgreSQL server found (install the package postgresql, or set %s to the folder of initdb and postgres), and fetching one did not work: %w", BinariesVariable, err)
	}
	return folder, nil
}

// installed lists the folders where distributions put the server, best first.
func installed() []string {
	var folders []string
	if output, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		folders = append(folders, strings.TrimSpace(string(output)))
	}
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(versions, newestFirst)
	folders = append(folders, versions...)
	if path, err := exec.LookPath("postgres"); err == nil {
		folders = append(folders, filepath.Dir(path))
	}
	return folders
}

func newestFirst(a, b string) int {
	version := func(path string) int {
		number, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		return number
	}
	return version(b) - version(a)
}

func firstComplete(folders []string) (string, error) {
	for _, folder := range folders {
		if complete(folder) {
			return folder, nil
		}
	}
	return "", errors.New("none of the folders holds initdb and postgres")
}

// complete says whether the folder holds a server: pg_config alone may come with
// the client library.
func complete(folder string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if information, err := os.Stat(filepath.Join(folder, name)); err != nil || information.IsDir() {
			return false
		}
	}
	return true
}

// fetch downloads a server once per user.
//
// The module has no call that only fetches. Its Start does so first; what comes
// after may fail (as root initdb does) and does not concern us.
func fetch() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "ekiden", "postgres")
	binaries := filepath.Join(folder, "bin")
	if complete(binaries) {
		return binaries, nil
	}
	scratch, err := os.MkdirTemp("", "ekiden-postgres-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(scratch) }()

	server := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		BinariesPath(folder).CachePath(scratch).RuntimePath(filepath.Join(scratch, "run")))
	started := server.Start()
	if started == nil {
		started = server.Stop()
	}
	if complete(binaries) {
		return binaries, nil
	}
	return "", started
}
