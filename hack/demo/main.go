// Command demo shows two runs of Ekiden from apply to result on a Kubernetes of its own: one that is killed on the way, and
// one that waits until somebody approves what it wants to do.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `Usage: go run ./hack/demo [--keep]
       go run ./hack/demo down

Starts a cluster of local processes, installs Ekiden in it, applies examples/ and shows two runs. The first answers a
ticket and goes on after its process was killed with SIGKILL. The second wants to pay a refund and waits, without a
process, until somebody who may approves. Ends with 0 if all went as it should, else with 1 and the place of the logs.
Ctrl-C stops everything at any time.

make demo builds what is needed first. down takes away what --keep left up.

Environment:
  KEEP=1          like --keep: leave the cluster up, in .devcluster/demo
  MODEL_URL       use this endpoint instead of a scripted model: a base URL of Chat Completions, such as https://llm.example/v1
  MODEL_NAME      the model's name there
  MODEL_API_KEY   its key; it goes into a Secret of the cluster and is not printed
  NO_COLOR        no colours, as without a terminal

Flags:
`

const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	keep := flag.Bool("keep", on(os.Getenv("KEEP")), "leave the cluster up when the demo ends")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		stop() // a second Ctrl-C ends the demo at once
	}()
	os.Exit(run(ctx, flag.Args(), *keep))
}

func run(ctx context.Context, args []string, keep bool) int {
	screen := newScreen(os.Stdout)
	var err error
	switch {
	case len(args) == 0:
		err = show(ctx, screen, keep)
	case len(args) == 1 && args[0] == "down":
		err = down(context.WithoutCancel(ctx), screen)
	default:
		fmt.Fprintf(os.Stderr, "demo: unexpected argument %q\n\n%s", args[0], usage)
		return exitUsage
	}
	switch {
	case err != nil:
		screen.Alarm("failed", err.Error())
		return exitFailed
	case ctx.Err() != nil:
		screen.Say("demo", "interrupted; nothing is left of it")
		return exitInterrupted
	default:
		return 0
	}
}

func on(variable string) bool { return variable != "" && variable != "0" && variable != "false" }
