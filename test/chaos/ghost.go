package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/test/chaos/judge"
)

// A process that was stopped writes once or twice when it wakes up, and then knows. A ghost is more stubborn: it takes a run that
// was just freed by a kill, with the login and the code of a segment, lets go of it, and once another process has taken over goes
// on writing under its old generation, all that a segment can write, while the run is at work.
type ghosts struct {
	*hunt
	once  sync.Once
	store *postgres.Store
	err   error
}

const (
	// haunts is one of how many kills a ghost comes of, haunting how often it tries each write.
	haunts   = 4
	haunting = 40
)

// haunt has a ghost come of the process that was killed. One that comes too late for its run goes again.
func (g *ghosts) haunt(ctx context.Context, p *prey) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	g.once.Do(func() { g.store, g.err = g.login(ctx) })
	if g.err != nil {
		g.log("no ghost can log in: %v", g.err)
		return
	}
	claim, session, err := g.possess(ctx, p)
	if err != nil {
		return
	}
	for err = segment.ErrUnavailable; err != nil && ctx.Err() == nil; {
		err = session.Release(ctx, nil)
	}
	g.succeeded(ctx, p.run, claim.Generation, time.Minute, func() bool { return true })
	f := judge.Fault{At: time.Now(), Kind: judge.Ghost, Run: p.run, Segment: p.segment, Attempt: p.attempt}
	f.Tried, f.Accepted = write(ctx, session, len(claim.Transcript))
	f.Took = time.Since(f.At)
	g.tell(f)
}

// login opens the store as a segment does.
func (g *ghosts) login(ctx context.Context) (*postgres.Store, error) {
	var s corev1.Secret
	if err := eventually(ctx, "the login can be read", func() error {
		return g.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: contract.PostgresSecret}, &s)
	}); err != nil {
		return nil, err
	}
	return postgres.Open(context.WithoutCancel(ctx), string(s.Data[contract.PostgresKey]))
}

// possess claims the run between the end of one attempt and the begin of the next.
func (g *ghosts) possess(ctx context.Context, p *prey) (segment.Claim, segment.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		c, s, err := g.store.Claim(ctx, segment.Ask{Run: types.UID(p.run), Segment: p.segment, Attempt: p.attempt, Holder: judge.Ghost})
		if err == nil || !errors.Is(err, segment.ErrBusy) && !errors.Is(err, segment.ErrUnavailable) || ctx.Err() != nil {
			return c, s, err
		}
		time.Sleep(15 * time.Millisecond) //nolint:forbidigo // as a segment that meets a lease does
	}
}

// write tries everything, and tells how often it was answered, and how often well.
func write(ctx context.Context, s segment.Session, at int) (tried, accepted int) {
	const turn = 99 // no run comes that far
	raw := json.RawMessage(`{"role":"assistant","content":"boo"}`)
	writes := []func() error{
		func() error { _, err := s.Beat(ctx); return err },
		func() error {
			_, err := s.Append(ctx, at, []segment.Entry{segment.Answered{Turn: turn, Try: 1, Raw: raw, Text: "boo", Finish: segment.FinishStop}}, nil)
			return err
		},
		func() error {
			_, err := s.Begin(ctx, segment.Intent{CallKey: segment.CallKey{Turn: turn}, Tool: "crm/send", Effect: v1alpha1.EffectSend, Idempotency: v1alpha1.IdempotencyNone, Digest: "sha256:0", Key: fmt.Sprintf("ghost-%d", at), PolicyVersion: 1})
			return err
		},
		func() error {
			_, err := s.Settle(ctx, segment.Settlement{CallKey: segment.CallKey{Turn: turn, Index: 1}, Tool: "crm/send", Effect: v1alpha1.EffectSend, Digest: "sha256:0", Result: segment.CallResult{Kind: segment.ResultAnswered, Text: "boo"}})
			return err
		},
		func() error {
			return s.Yield(ctx, contract.Outcome{Yield: contract.YieldCompleted, Result: "boo"}, nil)
		},
		func() error { return s.Release(ctx, nil) },
	}
	for range haunting {
		for _, w := range writes {
			switch err := w(); {
			case err == nil:
				tried, accepted = tried+1, accepted+1
			case errors.Is(err, segment.ErrFenced):
				tried++
			}
		}
	}
	return tried, accepted
}
