// Devcluster is a Kubernetes cluster for development and tests, in one binary:
// the control plane, a node that runs pods as local processes, and PostgreSQL.
//
// Called by the name of a component, or with it as the first argument, it is
// that component; otherwise it runs a cluster of them.
package main

import (
	"os"
	"path/filepath"

	"github.com/ekiden-dev/ekiden/hack/devcluster/command"
	"github.com/ekiden-dev/ekiden/hack/devcluster/component"
)

func main() {
	if name := filepath.Base(os.Args[0]); component.Known(name) {
		os.Exit(component.Run(name, os.Args[1:]))
	}
	if len(os.Args) > 1 && component.Known(os.Args[1]) {
		os.Exit(component.Run(os.Args[1], os.Args[2:]))
	}
	os.Exit(command.Execute(component.Names()))
}
