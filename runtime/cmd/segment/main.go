// Command segment runs one segment of a run: claim, think and act until it must stop, leave an outcome.
//
// It needs Postgres and the run's UID and nothing else: Kubernetes starts it, a person may as well.
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
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/model/openai"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/runtime/tool"
)

const usage = `Usage: segment --run UID (--dsn DSN | --dsn-file FILE) [flags]
       segment discover --dsn-file FILE [flags]

Runs one segment of an agent run against Postgres and ends with
  0   there is an outcome, a cancel or an end, and nothing left to do
  2   the command line is wrong
  75  another attempt may fare better; the termination log says why
and any other code for a crash. SIGTERM hands over at the next safe point.
Events go to standard output as JSON lines, logs to standard error.

By hand, for a run whose segment you want to watch:
  segment --dsn postgres://user:password@host:5432/ekiden --run 1f3a9c0d-… --credential-file key.txt

Flags:
`

type options struct {
	run            string
	segment        int
	attempt        int
	dsn, dsnFile   string
	credentialFile string
	toolDir        string
	caDir          string
	terminationLog string
}

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if len(os.Args) > 1 && os.Args[1] == "discover" {
		os.Exit(discovery(log, os.Args[2:]))
	}
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(misused("segment", err))
	}
	log = log.With("run", o.run, "segment", o.segment, "attempt", o.attempt)
	fault, err := run(context.Background(), o, stopped(), os.Stdout)
	os.Exit(leave(log, o, fault, err))
}

// misused tells of a wrong command line, unless it asked for help, and is the exit code.
func misused(command string, err error) int {
	if errors.Is(err, flag.ErrHelp) {
		return contract.ExitDone
	}
	fmt.Fprintf(os.Stderr, "segment: %v\nTry: %s --help\n", err, command)
	return contract.ExitUsage
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("segment", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		_, _ = fmt.Fprint(out, usage)
		fs.PrintDefaults()
	}
	fs.StringVar(&o.run, "run", "", "UID of the AgentRun")
	fs.IntVar(&o.segment, "segment", segment.Newest, "number of the segment; -1 means the first that has no outcome")
	fs.IntVar(&o.attempt, "attempt", 0, "number of the attempt, recorded with the claim")
	fs.StringVar(&o.dsn, "dsn", "", "DSN of Postgres")
	fs.StringVar(&o.dsnFile, "dsn-file", "", "file that holds the DSN of Postgres")
	fs.StringVar(&o.credentialFile, "credential-file", "", "file that holds the key of the model endpoint")
	fs.StringVar(&o.toolDir, "tool-credentials-dir", "", "directory that holds the keys of tool servers, each as SERVER/key")
	fs.StringVar(&o.caDir, "ca-dir", "", "directory that holds certificates to trust, as "+contract.ModelCA+" and "+contract.ToolCA("SERVER"))
	fs.StringVar(&o.terminationLog, "termination-log", "", "file to which a fault is written")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.run == "":
		return o, errors.New("--run is missing: the UID of the AgentRun (kubectl get arun NAME -o jsonpath={.metadata.uid})")
	case (o.dsn == "") == (o.dsnFile == ""):
		return o, errors.New("give exactly one of --dsn and --dsn-file")
	}
	return o, nil
}

// stopped is closed at SIGTERM or SIGINT.
func stopped() <-chan struct{} {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	stop := make(chan struct{})
	go func() {
		<-signals
		close(stop)
	}()
	return stop
}

// run claims and works. See segment.Segment.Run for what it returns.
func run(ctx context.Context, o options, stop <-chan struct{}, out io.Writer) (*contract.Fault, error) {
	dsn, fault := dsnOf(o)
	if fault != nil {
		return fault, nil
	}
	store, err := postgres.Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	claim, session, err := take(ctx, store, o, stop)
	switch {
	case errors.Is(err, contract.ErrSchema) && session != nil:
		return nil, session.Yield(ctx, contract.Outcome{
			Yield: contract.YieldFailed, Code: v1alpha1.ReasonIncompatibleSession, Message: contract.Clip(err.Error(), contract.MaxMessage),
		}, nil)
	case errors.Is(err, segment.ErrUnavailable):
		return &contract.Fault{Code: contract.FaultLedger, Message: contract.Clip(err.Error(), contract.MaxMessage)}, nil
	case errors.Is(err, errStopped):
		return &contract.Fault{Code: contract.FaultStopped, Message: "the pod was told to stop while it waited for the run"}, nil
	case err != nil:
		return nil, err
	}
	return work(ctx, o, claim, session, stop, out)
}

var errStopped = errors.New("told to stop")

// take claims the run; unlike the work that follows, waiting for it ends at once when the pod is told to stop.
func take(ctx context.Context, store segment.Store, o options, stop <-chan struct{}) (segment.Claim, segment.Session, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-stop:
			cancel(errStopped)
		case <-ctx.Done():
		}
	}()
	claim, session, err := segment.Take(ctx, store, segment.Ask{Run: types.UID(o.run), Segment: o.segment, Attempt: o.attempt, Holder: holder()})
	if err != nil && errors.Is(context.Cause(ctx), errStopped) {
		err = errStopped
	}
	return claim, session, err
}

func work(ctx context.Context, o options, claim segment.Claim, session segment.Session, stop <-chan struct{}, out io.Writer) (*contract.Fault, error) {
	agent := claim.Snapshot.Agent
	key, fault := keyOf(o, agent.Model.Endpoint.Credentials)
	if fault != nil {
		return fault, session.Release(ctx, nil)
	}
	trusted, fault := bundles(o, agent)
	if fault != nil {
		return fault, session.Release(ctx, nil)
	}
	model, err := openai.New(agent.Model.Endpoint, agent.Sampling, key, trusted.model)
	if err != nil {
		return nil, fmt.Errorf("model endpoint %s: %w", agent.Model.Name, err)
	}
	price, err := budget.PriceOf(agent.Model.Endpoint.Pricing)
	if err != nil {
		return nil, err
	}
	tools, err := tool.New(agent.Servers, o.toolDir, trusted.tools, agent.Retry)
	if err != nil {
		return nil, err
	}
	defer tools.Close()
	s := segment.Segment{Claim: claim, Session: session, Model: model, Tools: tools, Price: price, Stop: stop, Emit: emitter(out)}
	return s.Run(ctx)
}

func dsnOf(o options) (string, *contract.Fault) {
	if o.dsn != "" {
		return o.dsn, nil
	}
	b, err := os.ReadFile(o.dsnFile)
	if err != nil {
		return "", &contract.Fault{Code: contract.FaultSecretMissing, Message: fmt.Sprintf("Secret %s: key %s is not mounted", contract.PostgresSecret, contract.PostgresKey)}
	}
	return strings.TrimSpace(string(b)), nil
}

// keyOf reads the model key anew for each segment, so that a rotated one is taken up.
func keyOf(o options, c v1alpha1.Credentials) (string, *contract.Fault) {
	if c.SecretRef.Name == "" {
		return "", nil
	}
	b, err := os.ReadFile(o.credentialFile)
	key := strings.TrimSpace(string(b))
	if err != nil || key == "" {
		return "", &contract.Fault{Code: contract.FaultSecretMissing, Message: fmt.Sprintf("Secret %q has no key %q in this namespace, or it is empty: create it", c.SecretRef.Name, c.SecretRef.Key)}
	}
	return key, nil
}

// holder tells processes apart, for people who look at the table of claims.
func holder() string {
	name := os.Getenv("POD_NAME")
	if name == "" {
		name, _ = os.Hostname()
	}
	return contract.Holder(name, os.Getenv("POD_UID"), os.Getpid())
}

// emitter writes events as JSON lines. A reader that is gone changes nothing.
func emitter(out io.Writer) func(segment.Event) {
	enc := json.NewEncoder(out)
	return func(e segment.Event) {
		_ = enc.Encode(struct {
			At time.Time `json:"at"`
			segment.Event
		}{time.Now().UTC(), e})
	}
}

// leave tells how it ended and is the exit code.
func leave(log *slog.Logger, o options, fault *contract.Fault, err error) int {
	switch {
	case fault != nil:
		log.Warn("another attempt may fare better", "fault", fault.Code, "reason", fault.Message)
		told := *fault
		if told.Code == contract.FaultLedger {
			told.Message = trouble(o)
		}
		b, _ := json.Marshal(told) // a struct of strings and a number
		lastWords(log, o, b)
		return contract.ExitFault
	case errors.Is(err, segment.ErrOver), errors.Is(err, segment.ErrFenced):
		log.Info("nothing to do", "reason", err.Error())
		return contract.ExitDone
	case err != nil:
		log.Error("segment crashed", "error", err.Error())
		lastWords(log, o, []byte(contract.Clip(inWords(o, err), contract.MaxMessage)))
		return 1
	default:
		return contract.ExitDone
	}
}

// lastWords are what the manager is told about an end without an outcome.
func lastWords(log *slog.Logger, o options, words []byte) {
	if o.terminationLog == "" {
		return
	}
	if err := os.WriteFile(o.terminationLog, words, 0o600); err != nil {
		log.Error("writing the termination log", "error", err.Error())
	}
}
