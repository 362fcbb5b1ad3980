package openai

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

type timeouts struct{ firstToken, idle, total time.Duration }

func timeoutsOf(t v1alpha1.ModelTimeouts) timeouts {
	return timeouts{
		firstToken: time.Duration(cmp.Or(t.FirstTokenSeconds, 120)) * time.Second,
		idle:       time.Duration(cmp.Or(t.IdleSeconds, 60)) * time.Second,
		total:      time.Duration(cmp.Or(t.TotalSeconds, 600)) * time.Second,
	}
}

// watchdog cancels an exchange that takes too long. Its cause is the error to report.
//
//	request ──firstToken──► piece ──idle──► piece ──idle──► … end
//	└─────────────────────────total───────────────────────────┘
type watchdog struct {
	pause  *time.Timer
	total  *time.Timer
	idle   time.Duration
	cancel context.CancelCauseFunc
	begun  bool
}

func (t timeouts) watch(ctx context.Context) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{idle: t.idle, cancel: cancel}
	w.pause = time.AfterFunc(t.firstToken, func() {
		cancel(late(CodeFirstTokenTimeout, "the endpoint sent no token within %v (spec.timeouts.firstTokenSeconds)", t.firstToken))
	})
	w.total = time.AfterFunc(t.total, func() {
		cancel(late(CodeTotalTimeout, "the answer was not whole within %v (spec.timeouts.totalSeconds)", t.total))
	})
	return ctx, w
}

// piece tells that the answer grew. Comments and empty chunks are not told: they keep a connection alive, not an answer.
func (w *watchdog) piece() {
	if w.begun {
		w.pause.Reset(w.idle)
		return
	}
	w.begun = true
	w.pause.Stop()
	w.pause = time.AfterFunc(w.idle, func() {
		w.cancel(late(CodeIdleTimeout, "the endpoint paused for more than %v within its answer (spec.timeouts.idleSeconds)", w.idle))
	})
}

func (w *watchdog) stop() {
	w.pause.Stop()
	w.total.Stop()
	w.cancel(nil)
}

func late(code, format string, after time.Duration) *segment.CallError {
	return &segment.CallError{Retryable: true, Code: code, Message: fmt.Sprintf(format, after)}
}
