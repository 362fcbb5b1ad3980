package world

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"time"
)

// Order is what a process needs that is to be a world.
type Order struct {
	Takes time.Duration
	Steps int
}

// Play serves a world and tells its address.
func Play(ctx context.Context, order []byte, tell func(string)) error {
	var o Order
	if err := json.Unmarshal(order, &o); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	tell("http://" + l.Addr().String())
	return (&http.Server{Handler: New(o.Takes, o.Steps), ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}
