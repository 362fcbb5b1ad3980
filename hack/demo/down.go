package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/ekiden-dev/ekiden/hack/cluster"
)

// down takes away the demo that was kept. Doing so twice is no error.
func down(ctx context.Context, s *screen) error {
	repo, err := repository()
	if err != nil {
		return err
	}
	p := place{repo: repo, dir: keptDir(repo), keep: true}
	if _, err := os.Stat(p.dir); errors.Is(err, fs.ErrNotExist) {
		s.Say("demo", "none is kept")
		return nil
	}
	for _, name := range servers {
		server, err := load(p.own(name + ".json"))
		if errors.Is(err, fs.ErrNotExist) { // it ran against an endpoint of the user's, or did not come this far
			continue
		}
		if err == nil {
			err = server.end()
		}
		if err != nil {
			return err
		}
		s.Say(name, "stopped")
	}
	c := cluster.Cluster{Options: cluster.Options{Dir: p.dir, Repo: repo, Keep: true, Progress: io.Discard}}
	if err := c.Stop(ctx); err != nil {
		return err
	}
	s.Say("cluster", "stopped")
	return p.remove()
}
