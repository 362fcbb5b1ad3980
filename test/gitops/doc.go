// Package gitops asks what GitOps tools make of our objects: the health checks of examples/gitops are run as Argo CD and Flux
// run them, on objects in every state.
//
// testdata holds the objects, a file for each kind and a document for each state, which its first line tells. test/crd asks the
// API server to take them with their status. Of the error codes of runs there is one object; the others are made of it.
package gitops
