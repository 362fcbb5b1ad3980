// Command modelserver serves a scripted model. Without --script it answers every task with three sentences.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ekiden-dev/ekiden/test/modelserver"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "modelserver:", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:8085", "address to listen on")
	file := flag.String("script", "", "script file, YAML or JSON; unset answers every task with three sentences")
	ready := flag.String("ready-file", "", "file to write the address to once the server listens")
	flag.Parse()

	script := modelserver.Default()
	if *file != "" {
		b, err := os.ReadFile(*file)
		if err != nil {
			return err
		}
		if script, err = modelserver.Parse(b); err != nil {
			return fmt.Errorf("%s: %w", *file, err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	l, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	handler := modelserver.New(script, log)
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	log.Info("listening", "address", l.Addr().String())
	if *ready != "" {
		// Written beside and renamed, so that who waits for the file never reads half of it.
		if err := os.WriteFile(*ready+".tmp", []byte(l.Addr().String()+"\n"), 0o644); err != nil {
			return err
		}
		if err := os.Rename(*ready+".tmp", *ready); err != nil {
			return err
		}
	}

	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	handler.Stop()
	grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return srv.Close()
}
