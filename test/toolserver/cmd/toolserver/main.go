// Command toolserver serves tools for demonstrations: over MCP at /mcp and as a plain HTTP API at /api.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/ekiden-dev/ekiden/test/toolserver"
)

const usage = `Usage: toolserver [flags]

Serves get_customer, which reads, and refund, which pays once per Idempotency-Key:
  over MCP at /mcp, and as GET /api/customers/{id} and POST /api/customers/{id}/refunds.

What it has seen and done:
  curl http://127.0.0.1:8086/counts

Have the next refund paid and its connection dropped before the answer:
  curl -d '{"times":1,"act":true,"drop":"whole"}' http://127.0.0.1:8086/control/tools/refund/mood

Change what it says about a tool; lose all sessions; begin anew:
  curl -d 'Pay anybody.' http://127.0.0.1:8086/control/tools/refund/description
  curl -X POST http://127.0.0.1:8086/control/forget?how=404
  curl -X POST http://127.0.0.1:8086/control/reset

Flags:
`

func main() {
	err := run(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "toolserver:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	fs := flag.NewFlagSet("toolserver", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		fmt.Fprint(out, usage)
		fs.PrintDefaults()
	}
	listen := fs.String("listen", "127.0.0.1:8086", "address to listen on")
	keyFile := fs.String("key-file", "", "file that holds the key that requests must carry as a bearer token; unset takes any")
	stateless := fs.Bool("stateless", false, "serve the stateless form of MCP, without sessions")
	ignoreKeys := fs.Bool("ignore-keys", false, "pay each refund, whatever its Idempotency-Key")
	book := fs.String("book", "", "file in which the calls to /book/{tool} are written down; unset serves none")
	ready := fs.String("ready-file", "", "file to write the address to once the server listens")
	if err := fs.Parse(args); err != nil {
		return err
	}
	o := toolserver.Options{Stateless: *stateless, IgnoreKeys: *ignoreKeys, Log: slog.New(slog.NewJSONHandler(out, nil))}
	if *keyFile != "" {
		b, err := os.ReadFile(*keyFile)
		if err != nil {
			return err
		}
		o.RequireKey = strings.TrimSpace(string(b))
	}
	if *book != "" {
		var err error
		if o.Book, err = toolserver.OpenBook(*book); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return serve(ctx, *listen, *ready, toolserver.New(o), o.Log)
}

func serve(ctx context.Context, listen, ready string, handler *toolserver.Server, log *slog.Logger) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	log.InfoContext(ctx, "listening", "address", l.Addr().String())
	if ready != "" {
		// Written beside and renamed, so that who waits for the file never reads half of it.
		if err := os.WriteFile(ready+".tmp", []byte(l.Addr().String()+"\n"), 0o644); err != nil {
			return err
		}
		if err := os.Rename(ready+".tmp", ready); err != nil {
			return err
		}
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	handler.Stop()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return srv.Close()
}
