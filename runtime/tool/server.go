package tool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

// server is a server and the keys that it was given.
type server struct {
	v1alpha1.CompiledServer
	adapter wire.Adapter
	dir     string

	mu sync.Mutex
	// keys are all that were sent to it, newest last: it may repeat an old one after a rotation.
	keys []string
}

// open is a call that is about to be made, with the server's key as it is now.
func (v *Invoker) open(o order) (*call, error) {
	s, ok := v.servers[o.tool.Server]
	if !ok {
		return nil, &segment.EndError{Code: v1alpha1.ReasonIncompatibleSession, Message: fmt.Sprintf("the snapshot has the tool %q and not its server %q", o.tool.Name, o.tool.Server)}
	}
	secret, err := s.secret()
	if err != nil {
		return nil, err
	}
	return &call{
		server: s, order: o, retry: v.retry,
		request: wire.Request{Tool: o.tool, Arguments: o.arguments, Key: o.key, Secret: secret},
		redact:  redactor(s.remember(secret)),
	}, nil
}

// secret reads the key anew, so that a rotated one is taken up.
func (s *server) secret() (string, error) {
	ref := s.Credentials.SecretRef
	if ref.Name == "" {
		return "", nil
	}
	b, err := os.ReadFile(filepath.Join(s.dir, s.Name, contract.CredentialFile))
	key := strings.TrimSpace(string(b))
	if err == nil && key == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", missing("Secret %q has no key %q in this namespace, or it is empty: create it", ref.Name, ref.Key)
	}
	if err := wire.CheckSecret(s.Credentials, key); err != nil {
		return "", missing("key %q of Secret %q cannot be used: %v", ref.Key, ref.Name, err)
	}
	return key, nil
}

func missing(format string, args ...any) error {
	return &segment.FaultError{Fault: contract.Fault{Code: contract.FaultSecretMissing, Message: contract.Clip(fmt.Sprintf(format, args...), contract.MaxMessage)}}
}

func (s *server) remember(key string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key != "" && !slices.Contains(s.keys, key) {
		s.keys = append(s.keys, key)
	}
	return slices.Clone(s.keys)
}
