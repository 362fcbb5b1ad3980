// Package crd asks a real API server whether the kinds of ekiden.dev and the objects of config/ keep their promises:
// what is accepted and what is refused and with which words, who may do what, and what people see.
//
// Bounds, enums and requirements are not listed here: they are read from the schema, and every one of them is
// tried on both sides. Patterns and rules are listed, and the lists are checked to be complete.
package crd

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ekiden-dev/ekiden/test/apitest"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // The clients have nothing to say that the tests do not.
	os.Exit(apitest.Main(m))
}

// installed is the API server with config/default on it.
func installed(t *testing.T) *apitest.Server {
	t.Helper()
	server := apitest.Start(t)
	server.Install(t)
	return server
}
