package memory

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/record"
)

// call is a row of the journal.
type call struct {
	segment.Call
	intent segment.Intent
}

// Decide puts what was decided on a seat of a call into the run's inbox. Its Seq is the store's to say.
func (s *Store) Decide(uid types.UID, d contract.Delivery) {
	s.change(uid, func(r *run) {
		s.seq++
		d.Seq = s.seq
		r.inbox = append(r.inbox, d)
	})
}

// Policy makes the set a new version of the policy, for every run.
func (s *Store) Policy(set contract.PolicySet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set.Schema = contract.PolicySchema
	s.policies = append(s.policies, set)
}

func (s *Store) policy() contract.Policy {
	n := len(s.policies)
	if n == 0 {
		return contract.Policy{}
	}
	return contract.Policy{Version: int64(n), Set: s.policies[n-1]}
}

// journal is a copy that whoever gets it may change.
func (r *run) journal() segment.Journal {
	out := segment.Journal{}
	for k, c := range r.calls {
		if c.Result != nil {
			result := *c.Result
			c.Result = &result
		}
		c.Approvals = slices.Clone(c.intent.Approvals)
		c.Gone = c.Result == nil && r.gone(c)
		out[k] = c.Call
	}
	return out
}

// misread plants bugs in a journal.
func (b Bugs) misread(j segment.Journal) segment.Journal {
	for k, c := range j {
		c.Gone = c.Gone || b.AllGone && c.Result == nil
		if b.WordsUnkept {
			c.Approvals = nil
		}
		j[k] = c
	}
	return j
}

// gone reports whether whoever began the call last is known to send nothing of it any more.
func (r *run) gone(c call) bool {
	if r.terminated[c.Generation] {
		return true
	}
	for _, o := range r.outcomes {
		if o.generation == c.Generation {
			return true
		}
	}
	return false
}

// Begin writes the intent of a call.
func (s *session) Begin(ctx context.Context, i segment.Intent) (segment.Pulse, error) {
	i.Tool, i.Digest, i.Key, i.Rule = contract.Clip(i.Tool, record.MaxTool), contract.Clean(i.Digest), contract.Clean(i.Key), contract.Clean(i.Rule)
	i.Approvals, i.By = slices.Clone(i.Approvals), slices.Clone(i.By)
	for n := range i.By {
		i.By[n] = contract.Clean(i.By[n])
	}
	return s.pass(ctx, func() error {
		c, there := s.run.calls[i.CallKey]
		switch {
		case s.run.cancelled && !s.store.bugs.CancelUnseen:
			return segment.ErrCancelled
		case i.PolicyVersion != s.store.policy().Version && !s.store.bugs.PolicyUnseen:
			return segment.ErrPolicyChanged
		case there && (c.Result != nil || c.Digest != i.Digest || c.intent.Key != i.Key):
			return errors.New("the call is settled, or was begun with other arguments or another key")
		}
		if !there {
			c.Call = segment.Call{
				CallKey: i.CallKey, Tool: i.Tool, Effect: i.Effect, Idempotency: i.Idempotency, Digest: i.Digest, Begun: true,
			}
		}
		c.Generation, c.intent = s.generation, i
		s.run.calls[i.CallKey] = c
		return nil
	})
}

// Settle writes how a call ended.
func (s *session) Settle(ctx context.Context, e segment.Settlement) (segment.Pulse, error) {
	e.Result.Code, e.Result.Text = contract.Clip(e.Result.Code, record.MaxCode), contract.Clip(e.Result.Text, record.MaxText)
	return s.pass(ctx, func() error {
		c, there := s.run.calls[e.CallKey]
		if c.Result != nil {
			return nil
		}
		if !there {
			c.Call = segment.Call{CallKey: e.CallKey, Tool: contract.Clip(e.Tool, record.MaxTool), Effect: e.Effect, Digest: contract.Clean(e.Digest)}
		}
		c.Generation, c.Result = s.generation, &e.Result
		s.run.calls[e.CallKey] = c
		return nil
	})
}

// Policy reads the newest policy.
func (s *session) Policy(ctx context.Context) (contract.Policy, error) {
	if err := ctx.Err(); err != nil {
		return contract.Policy{}, err
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.store.policy(), nil
}
