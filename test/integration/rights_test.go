package integration

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ekiden-dev/ekiden/hack/cluster"
	"github.com/ekiden-dev/ekiden/hack/rights"
)

// account is that of the manager, as the API server names it.
const account = "system:serviceaccount:" + cluster.ManagerNamespace + ":ekiden-manager"

// whole reports whether all stories were told: after some of them the log would miss what the others do.
func whole() bool {
	for _, name := range []string{"test.run", "test.skip"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

// idle are the rights of the manager that no story has made use of. The API server's own log says so, which holds all requests
// of the manager's account.
func idle() error {
	objects, err := rights.Manifests(filepath.Join(shared.Repo, "config", "default"))
	if err != nil {
		return err
	}
	granted, err := rights.Of("ekiden-manager", objects)
	if err != nil {
		return err
	}
	log, err := os.Open(filepath.Join(shared.Dir, "logs", "audit.jsonl"))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // it was only read
	used, err := rights.Used(log, account, granted)
	if err != nil {
		return err
	}
	for _, p := range rights.Manager() {
		if p.Asked+p.Rarely != "" {
			used[p.Right] = true
		}
	}
	var unused []string
	for _, r := range granted {
		if !used[r] {
			unused = append(unused, r.String())
		}
	}
	if len(unused) > 0 {
		return fmt.Errorf("no story made use of these rights of the manager: take them away, or tell the story that wants them:\n\t%s", strings.Join(unused, "\n\t"))
	}
	return nil
}
