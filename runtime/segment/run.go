package segment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
)

// Segment is one claimed stretch of a run.
type Segment struct {
	Claim   Claim
	Session Session
	Model   Model
	Price   budget.Price
	// Stop is closed when the pod is told to go. It is the soft timer now.
	Stop <-chan struct{}
	// Emit tells whoever watches. It must not block.
	Emit func(Event)
}

// Why an act is cut. None of them is the model's fault.
var (
	errCancelled = errors.New("the run was cancelled")
	errHard      = errors.New("the hard timer cut the act")
	errGrace     = errors.New("the pod's grace is over")
)

// Run carries the segment to its end. A fault means that another attempt should go on. The error ErrFenced means
// that this process has nothing left to do; any other is a crash.
func (s *Segment) Run(ctx context.Context) (*contract.Fault, error) {
	w := newWork(s)
	ctx, end := context.WithCancelCause(ctx)
	beating := w.beat(ctx, end)
	defer func() {
		end(nil)
		<-beating
	}()
	for {
		var err error
		switch act := Next(w.transcript, w.situation()).(type) {
		case Think:
			err = w.think(ctx, act)
		case Pause:
			err = w.pause(ctx, act.Until)
		case Leave:
			s.Emit(Event{Name: "Left", Segment: s.Claim.Segment, Code: string(act.Fault.Code), Message: act.Fault.Message})
			return &act.Fault, w.persist(ctx, func() error { return s.Session.Release(ctx, w.unbooked) })
		case Yield:
			err = w.persist(ctx, func() error { return s.Session.Yield(ctx, act.Outcome, w.unbooked) })
			if err == nil {
				s.Emit(Event{Name: "Yielded", Segment: s.Claim.Segment, Code: string(act.Outcome.Yield), Message: act.Outcome.Message})
			}
			return nil, err
		}
		if err != nil {
			return nil, err
		}
	}
}

// think asks the model once and appends what came of it.
func (w *work) think(ctx context.Context, t Think) error {
	w.tell(Event{Name: "ModelCalled", Turn: &t.Turn, Try: t.Try})
	act, release := w.bounded(ctx)
	answer, err := w.Model.Answer(act, w.prompt(), func(text string) {
		w.tell(Event{Name: "Delta", Turn: &t.Turn, Try: t.Try, Text: text})
	})
	cut := context.Cause(act)
	release()
	usage := Usage{Turn: t.Turn, Try: t.Try, Tokens: answer.Tokens, Estimated: answer.Estimated, Cost: w.Price.Cost(answer.Tokens)}
	switch {
	case err == nil:
		w.tell(Event{Name: "ModelAnswered", Turn: &t.Turn, Try: t.Try, Code: string(answer.Finish), Usage: &usage})
		return w.append(ctx, Answered{Turn: t.Turn, Try: t.Try, Raw: answer.Raw, Text: contract.Clean(answer.Text), Calls: answer.Calls, Finish: answer.Finish}, usage)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case cut != nil: // not the model's fault, so not a try; its tokens are paid for all the same
		w.tell(Event{Name: "ModelCut", Turn: &t.Turn, Try: t.Try, Message: cut.Error()})
		if usage.Tokens != (budget.Tokens{}) {
			w.unbooked = append(w.unbooked, usage)
		}
		return nil
	default:
		return w.fail(ctx, t, err, usage)
	}
}

// fail appends a try that gave no answer.
func (w *work) fail(ctx context.Context, t Think, err error, usage Usage) error {
	var call *CallError
	if !errors.As(err, &call) {
		return fmt.Errorf("asking the model: %w", err)
	}
	retry := w.Claim.Snapshot.Agent.Retry
	f := AttemptFailed{Turn: t.Turn, Try: t.Try, Retryable: call.Retryable, Code: call.Code, Message: contract.Clip(call.Message, contract.MaxMessage)}
	longest := time.Duration(retry.MaxRetryAfterSeconds) * time.Second
	switch {
	case !call.Retryable:
	case call.RetryAfter > longest:
		f.Retryable, f.Code = false, v1alpha1.ReasonQuotaExhausted
		f.Message = fmt.Sprintf("the model endpoint asked to wait %.0f seconds, longer than retry.maxRetryAfterSeconds (%d): %s", call.RetryAfter.Seconds(), retry.MaxRetryAfterSeconds, f.Message)
	case call.RetryAfter > 0:
		f.NotBefore = time.Now().Add(call.RetryAfter)
	default:
		f.NotBefore = time.Now().Add(budget.Pause(retry, t.Try, fmt.Sprintf("%s/%d", w.Claim.Snapshot.Run.UID, t.Turn)))
	}
	w.tell(Event{Name: "AttemptFailed", Turn: &t.Turn, Try: t.Try, Code: f.Code, Message: f.Message})
	if usage.Tokens == (budget.Tokens{}) {
		return w.append(ctx, f)
	}
	return w.append(ctx, f, usage)
}

// append makes an entry durable. Nothing is visible in the transcript before that.
func (w *work) append(ctx context.Context, e Entry, usage ...Usage) error {
	usage = append(w.unbooked, usage...)
	err := w.persist(ctx, func() error {
		p, err := w.Session.Append(ctx, len(w.transcript), []Entry{e}, usage)
		if err == nil {
			w.feel(p)
		}
		return err
	})
	if err != nil {
		return err
	}
	w.unbooked = nil
	w.transcript = append(w.transcript, e)
	w.appended++
	return nil
}

// persist repeats a write until the store has answered. It does not give up by itself: what is being written has been paid
// for, the fence refuses it if a successor has gone on meanwhile, and the pod's own deadline bounds it from outside.
func (w *work) persist(ctx context.Context, write func() error) error {
	for n := time.Duration(1); ; n++ {
		err := write()
		if !errors.Is(err, ErrUnavailable) {
			return err
		}
		if err := sleep(ctx, min(n*200*time.Millisecond, 2*time.Second)); err != nil {
			return err
		}
	}
}

// pause waits for an instant, or for a reason not to.
func (w *work) pause(ctx context.Context, until time.Time) error {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.Stop:
	case <-w.cancelled:
	case <-t.C:
	}
	return nil
}

// prompt lays out the conversation so far.
func (w *work) prompt() prompt.Prompt {
	p := prompt.Prompt{System: w.Claim.Snapshot.Agent.Instructions}
	p.Conversation = append(p.Conversation, prompt.Message{Role: prompt.User, Text: w.Claim.Snapshot.Task})
	for _, e := range w.transcript {
		a, ok := e.(Answered)
		if !ok {
			continue
		}
		p.Conversation = append(p.Conversation, prompt.Message{Role: prompt.Assistant, Text: a.Text, Raw: a.Raw})
		if a.Finish == FinishLength {
			p.Conversation = append(p.Conversation, prompt.Message{Role: prompt.User, Text: prompt.Continue})
		}
	}
	return p
}
