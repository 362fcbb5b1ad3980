package pulse

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ekiden-dev/ekiden/controllers/ledger/ledgertest"
)

var errBroken = errors.New("broken")

// world is an API server whose writes may fail, and a ledger.
type world struct {
	*testing.T
	api    client.WithWatch
	ledger *ledgertest.Ledger
	broken bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, ledger: ledgertest.New(time.Now)}
	w.api = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if w.broken {
				return errBroken
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if w.broken {
				return errBroken
			}
			return c.Update(ctx, o, opts...)
		},
	})
	return w
}

// manager is one that has just started.
func (w *world) manager() *Pulse { return New(w.api, w.api, w.ledger, "ekiden-system") }

func (w *world) beat(p *Pulse) {
	w.Helper()
	if err := p.Beat(w.Context()); err != nil {
		w.Fatal(err)
	}
}

func (w *world) remembered() string {
	w.Helper()
	var lease coordinationv1.Lease
	if err := client.IgnoreNotFound(w.api.Get(w.Context(), client.ObjectKey{Namespace: "ekiden-system", Name: Lease}, &lease)); err != nil {
		w.Fatal(err)
	}
	return lease.Annotations[count]
}

func TestTheAPIServerRemembersWhatPostgresHasCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.manager()
	w.beat(p)
	w.beat(p)
	if got := w.remembered(); got != "2" {
		t.Errorf("remembered %q, want 2", got)
	}
	w.broken = true
	if err := p.Beat(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	w.broken = false
	w.beat(w.manager()) // Postgres is ahead by the beat that nobody wrote down, which is no restore
	if got := w.remembered(); got != "4" {
		t.Errorf("remembered %q, want 4", got)
	}
}

func TestALedgerThatCountsLessIsNotActedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.manager()
	for range 3 {
		w.beat(p)
	}
	tests := map[string]struct {
		counted int64
		want    error
	}{
		"as much":                     {3, nil},
		"more, of another's beat":     {4, nil},
		"less, for it was restored":   {2, errSetBack},
		"nothing, for it is replaced": {0, errSetBack},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := p.Sound(t.Context(), tc.counted); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// TestNothingIsDecidedBeforeTheFirstBeat is about a manager that starts after a restore: it has counted nothing itself.
func TestNothingIsDecidedBeforeTheFirstBeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		w.beat(w.manager())
	}
	w.ledger = ledgertest.New(time.Now) // another one
	p := w.manager()
	waited, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Sound(waited, 99); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v before the first beat", err)
	}
	w.beat(p)
	if got := w.remembered(); got != "4" {
		t.Errorf("remembered %q, want 4: what was remembered, and the beat", got)
	}
	if err := p.Sound(t.Context(), 3); !errors.Is(err, errSetBack) {
		t.Errorf("got %v", err)
	}
}
