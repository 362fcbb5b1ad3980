package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/runtime/tool"
)

const discoverUsage = `Usage: segment discover --dsn-file FILE [flags]

Asks an MCP server for its tools and keeps their contracts in Postgres. The server is described in JSON in the variable
` + contract.DiscoveryEnv + `. It ends with
  0   the contracts are kept
  2   the command line is wrong
  75  another attempt may fare better, or the server has to be mended; the termination log says which
and any other code for a crash. What it found goes to standard output as JSON lines, logs to standard error.

By hand, for a server that listens on this machine:
  export ` + contract.DiscoveryEnv + `='{"namespaceUID":"…","generation":1,"server":{"name":"crm","uid":"…","type":"MCP",
    "url":"http://127.0.0.1:8086/mcp","egress":{"allow":["127.0.0.0/8"]}}}'
  segment discover --dsn-file dsn.txt

Flags:
`

type discoverOptions struct {
	dsnFile        string
	credentialFile string
	caDir          string
	terminationLog string
}

// parseDiscover reads what follows the word discover.
func parseDiscover(args []string, out io.Writer) (discoverOptions, error) {
	var o discoverOptions
	fs := flag.NewFlagSet("segment discover", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		_, _ = fmt.Fprint(out, discoverUsage)
		fs.PrintDefaults()
	}
	fs.StringVar(&o.dsnFile, "dsn-file", "", "file that holds the DSN of Postgres")
	fs.StringVar(&o.credentialFile, "credential-file", "", "file that holds the key of the tool server")
	fs.StringVar(&o.caDir, "ca-dir", "", "directory that holds certificates to trust, as "+contract.ToolCA("SERVER"))
	fs.StringVar(&o.terminationLog, "termination-log", "", "file to which a fault is written")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.dsnFile == "":
		return o, errors.New("--dsn-file is missing: the file that holds the DSN of Postgres")
	}
	return o, nil
}

// discovery carries a discovery out and is the exit code.
func discovery(log *slog.Logger, args []string) int {
	d, err := parseDiscover(args, os.Stderr)
	if err != nil {
		return misused("segment discover", err)
	}
	o := options{dsnFile: d.dsnFile, terminationLog: d.terminationLog}
	fault, err := discoverInto(context.Background(), d, o)
	return leave(log, o, fault, err)
}

// discoverInto opens the store and discovers.
func discoverInto(ctx context.Context, d discoverOptions, o options) (*contract.Fault, error) {
	dsn, fault := dsnOf(o)
	if fault != nil {
		return fault, nil
	}
	store, err := postgres.OpenContracts(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return discover(ctx, d, os.Stdout, store)
}

// contractStore keeps what was discovered. Keeping the same again changes nothing. Errors: segment.ErrUnavailable.
type contractStore interface {
	Keep(ctx context.Context, namespaceUID, serverUID types.UID, generation int64, tools []contract.ToolContract) error
}

// found is one line of output: a tool that was found, or a warning about one that was left out.
type found struct {
	Event   string `json:"event"`
	Tool    string `json:"tool,omitempty"`
	Digest  string `json:"digest,omitempty"`
	Message string `json:"message,omitempty"`
}

// discover asks the server that the environment describes and keeps its tools. A fault says what may fare better later.
func discover(ctx context.Context, o discoverOptions, out io.Writer, store contractStore) (*contract.Fault, error) {
	var d contract.Discovery
	if err := json.Unmarshal([]byte(os.Getenv(contract.DiscoveryEnv)), &d); err != nil {
		return nil, fmt.Errorf("reading %s: %w", contract.DiscoveryEnv, err)
	}
	key, fault := keyOf(options{credentialFile: o.credentialFile}, d.Server.Credentials)
	if fault != nil {
		return fault, nil
	}
	trusted, fault := bundleOf(o.caDir, contract.ToolCA(d.Server.Name), d.Server.TLS)
	if fault != nil {
		return fault, nil
	}
	tools, warnings, err := tool.Discover(ctx, d, key, trusted)
	if known := new(segment.FaultError); errors.As(err, &known) {
		return &known.Fault, nil
	}
	if err != nil {
		return nil, err
	}
	err = store.Keep(ctx, d.NamespaceUID, d.Server.UID, d.Generation, tools)
	if errors.Is(err, segment.ErrUnavailable) {
		return &contract.Fault{Code: contract.FaultLedger, Message: contract.Clip(err.Error(), contract.MaxMessage)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("keeping the tools of %s: %w", d.Server.Name, err)
	}
	return nil, tell(out, tools, warnings)
}

// tell writes what was found. A reader that is gone changes nothing.
func tell(out io.Writer, tools []contract.ToolContract, warnings []string) error {
	enc := json.NewEncoder(out)
	for _, t := range tools {
		_, digest, err := t.Encode()
		if err != nil {
			return err
		}
		_ = enc.Encode(found{Event: "ToolFound", Tool: t.Name, Digest: digest})
	}
	for _, w := range warnings {
		_ = enc.Encode(found{Event: "ToolLeftOut", Message: strings.TrimSpace(w)})
	}
	return nil
}
