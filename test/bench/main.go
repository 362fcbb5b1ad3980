// Command bench measures Ekiden beside other durable engines, on one machine and one Postgres. See README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ekiden-dev/ekiden/test/bench/engine/dbos"
	"github.com/ekiden-dev/ekiden/test/bench/engine/river"
	"github.com/ekiden-dev/ekiden/test/bench/role"
	"github.com/ekiden-dev/ekiden/test/bench/world"
)

// plays are the processes that the bench starts besides itself.
var plays = map[string]role.Play{"world": world.Play, dbos.Role: dbos.Play, river.Role: river.Play}

func main() {
	if role.Taken(plays) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := bench(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
