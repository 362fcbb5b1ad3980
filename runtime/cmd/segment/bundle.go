package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/egress"
)

// trusted are certificates that are trusted besides those of the image: of the model endpoint, and of tool servers by their names.
type trusted struct {
	model []byte
	tools map[string][]byte
}

// bundles reads them all anew for each segment, so that a rotated one is taken up. One that is missing ends the segment before it
// does anything: without it, a server that has to be asked later could not be.
func bundles(o options, agent v1alpha1.CompiledAgent) (t trusted, fault *contract.Fault) {
	if t.model, fault = bundleOf(o.caDir, contract.ModelCA, agent.Model.Endpoint.TLS); fault != nil {
		return t, fault
	}
	t.tools = map[string][]byte{}
	for _, s := range agent.Servers {
		if t.tools[s.Name], fault = bundleOf(o.caDir, contract.ToolCA(s.Name), s.TLS); fault != nil {
			return t, fault
		}
	}
	return t, nil
}

// bundleOf is the bundle in the file, or nil if none is wanted.
func bundleOf(dir, file string, tls v1alpha1.TLS) ([]byte, *contract.Fault) {
	ref := tls.CABundle.ConfigMap
	if ref.Name == "" {
		return nil, nil
	}
	missing := func(format string, args ...any) *contract.Fault {
		return &contract.Fault{Code: contract.FaultCABundleMissing, Message: contract.Clip(fmt.Sprintf(format, args...), contract.MaxMessage)}
	}
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
	switch {
	case err != nil:
		return nil, missing("ConfigMap %q has no key %q in this namespace: create it, or correct spec.tls.caBundle", ref.Name, ref.Key)
	case !egress.Certificates(b):
		return nil, missing("key %q of ConfigMap %q holds no certificate in PEM: correct it, or spec.tls.caBundle", ref.Key, ref.Name)
	default:
		return b, nil
	}
}
