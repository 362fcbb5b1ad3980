package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	// Tools carries out calls. Nil if the agent has no tools.
	Tools Tools
	Price budget.Price
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
	err := w.open()
	for err == nil {
		switch act := Next(w.transcript, w.situation()).(type) {
		case Think:
			err = w.think(ctx, act)
		case Invoke:
			err = w.invoke(ctx, act.Permit)
		case Probe:
			err = w.probe(ctx, act.Permit)
		case Refuse:
			err = w.settle(ctx, act.Settlement)
		case Pause:
			err = w.pause(ctx, act.Until)
		case Leave:
			err = &FaultError{act.Fault}
		case Yield:
			return nil, w.yield(ctx, act.Outcome)
		}
		if err == nil {
			err = w.heed(ctx)
		}
	}
	return w.leave(ctx, err)
}

// leave ends the segment for a reason that Next did not name, or that is no outcome.
func (w *work) leave(ctx context.Context, err error) (*contract.Fault, error) {
	var fault *FaultError
	var over *EndError
	switch {
	case errors.As(err, &fault):
		w.tell(Event{Name: "Left", Code: string(fault.Code), Message: fault.Message})
		return &fault.Fault, w.persist(ctx, func() error { return w.Session.Release(ctx, w.unbooked) })
	case errors.As(err, &over):
		if err := w.settleAbandoned(ctx); err != nil {
			return nil, err
		}
		return nil, w.yield(ctx, failed(over.Code, over.Message))
	case ctx.Err() != nil && errors.Is(err, ctx.Err()): // what was under way was cut, and does not say why
		return nil, context.Cause(ctx)
	default:
		return nil, err
	}
}

func (w *work) yield(ctx context.Context, o contract.Outcome) error {
	err := w.persist(ctx, func() error { return w.Session.Yield(ctx, o, w.unbooked) })
	if err != nil {
		return err
	}
	if o.Wait != nil {
		for _, a := range o.Wait.Asks {
			w.tell(Event{Name: "ApprovalRequired", Turn: &a.Turn, Index: &a.Index, Tool: a.Tool, Code: string(a.Type)})
		}
	}
	w.tell(Event{Name: "Yielded", Code: string(o.Yield), Message: o.Message})
	return nil
}

// think asks the model once and appends what came of it.
func (w *work) think(ctx context.Context, t Think) error {
	w.tell(Event{Name: "ModelCalled", Turn: &t.Turn, Try: t.Try})
	act, release := w.bounded(ctx, cuts{cancel: true, hard: true})
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
	p := prompt.Prompt{System: w.Claim.Snapshot.Agent.Instructions, Tools: tools(w.Claim.Snapshot)}
	p.Conversation = append(p.Conversation, prompt.Message{Role: prompt.User, Text: w.Claim.Snapshot.Task})
	for _, e := range w.transcript {
		a, ok := e.(Answered)
		if !ok {
			continue
		}
		p.Conversation = append(p.Conversation, prompt.Message{Role: prompt.Assistant, Text: a.Text, Raw: a.Raw})
		for i := range a.Calls { // each has its result, or the model would not be asked
			if r := w.journal[CallKey{a.Turn, i}].Result; r != nil {
				p.Conversation = append(p.Conversation, prompt.Message{Role: prompt.Tool, Call: i, Text: r.Text})
			}
		}
		if a.Finish == FinishLength && len(a.Calls) == 0 {
			p.Conversation = append(p.Conversation, prompt.Message{Role: prompt.User, Text: prompt.Continue})
		}
	}
	return p
}

// tools are the agent's tools as the model is told of them.
func tools(s contract.Snapshot) []prompt.Offer {
	granted := map[string]bool{}
	for _, name := range s.Grant {
		granted[name] = true
	}
	var out []prompt.Offer
	for i, t := range s.Agent.Tools {
		if granted[t.Name] && i < len(s.Tools) {
			out = append(out, prompt.Offer{Name: t.Name, Description: s.Tools[i].Description, Schema: s.Tools[i].Schema})
		}
	}
	slices.SortFunc(out, func(a, b prompt.Offer) int { return strings.Compare(a.Name, b.Name) })
	return out
}
