package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ekiden-dev/ekiden/test/chaos/judge"
)

// recoverWithin is how long runs may take to end once nothing is broken any more.
const recoverWithin = 4 * time.Minute

// Run breaks things on a cluster in a folder, and is what that has shown. An error means that it could not be told.
func Run(ctx context.Context, o Options, dir, repo string, log func(string, ...any)) (judge.Report, error) {
	w, err := begin(ctx, o, dir, repo, log)
	if err != nil {
		return judge.Report{}, err
	}
	r, err := w.chaos(ctx, o)
	if err == nil && o.Report != "" {
		err = keep(o.Report, r)
	}
	return r, errors.Join(err, w.end()) //nolint:contextcheck // it ends whatever has ended already
}

func keep(name string, what any) error {
	b, err := json.MarshalIndent(what, "", "  ")
	return errors.Join(err, os.WriteFile(name, b, 0o600))
}

func (w *world) chaos(ctx context.Context, o Options) (judge.Report, error) {
	l, err := w.load(ctx, o)
	if err != nil {
		return judge.Report{}, err
	}
	began := time.Now()
	h := l.hunt()
	s := &storm{h}
	hunting, rest := context.WithCancel(ctx)
	loading, enough := context.WithTimeout(ctx, o.Within)
	defer enough()
	var all sync.WaitGroup
	for _, f := range []func(context.Context){l.observe, l.decide, h.chase, h.listen, h.progress} {
		all.Go(func() { f(hunting) })
	}
	blown := make(chan struct{})
	go func() {
		defer close(blown)
		s.blow(loading)
	}()
	err = h.work(loading, blown)
	h.quiet.Store(true)
	<-blown
	h.calm(ctx)
	rest()
	all.Wait()
	h.wg.Wait()
	if err == nil { // once more, so that no later change is missed
		err = eventually(ctx, "the API server answers", func() error { _, err := l.look(ctx); return err })
	}
	if err != nil {
		return judge.Report{}, err
	}
	books, err := h.books(ctx, began)
	if err == nil {
		err = keep(filepath.Join(w.Dir, "books.json"), books)
	}
	return judge.Summarize(o.Seed, books), err
}

// work keeps runs under way until enough is broken, or it has taken too long.
func (h *hunt) work(ctx context.Context, blown <-chan struct{}) error {
	over := func() bool {
		select {
		case <-blown:
			return h.kills.Load() >= int64(h.options.Kills)
		default:
			return false
		}
	}
	for n := 0; !over() && ctx.Err() == nil; {
		if all, ended := h.counts(); all-ended < h.options.Parallel {
			if err := h.start(ctx, n); err != nil && ctx.Err() == nil {
				return err
			}
			n++
			continue
		}
		select {
		case <-h.ended:
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// calm waits until all runs have ended, now that nothing is broken any more.
func (h *hunt) calm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recoverWithin)
	defer cancel()
	for ctx.Err() == nil {
		if all, ended := h.counts(); all == ended {
			return
		}
		select {
		case <-h.ended:
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// progress tells how far it is.
func (h *hunt) progress(ctx context.Context) {
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(15 * time.Second):
			all, ended := h.counts()
			h.mu.Lock()
			faults := len(h.faults)
			h.mu.Unlock()
			h.log("after %s: %d kills, %d faults in all, %d runs, %d of them ended", time.Since(began).Round(time.Second), h.kills.Load(), faults, all, ended)
		}
	}
}
