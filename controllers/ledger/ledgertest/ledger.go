// Package ledgertest is a ledger in memory for tests, and the laws that it and the real one keep.
package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// Ledger is a ledger.Ledger in memory. The methods that ledger.Ledger does not have are what segments do to it.
type Ledger struct {
	now func() time.Time

	mu      sync.Mutex
	runs    map[types.UID]*run
	order   []types.UID
	tenants []ledger.Tenant
	// turned says since when a namespace has the login that it has.
	turned map[types.UID]time.Time
	// count is that of the newest beat.
	count int64
	tools
}

var _ ledger.Ledger = (*Ledger)(nil)

// run is what the tables hold of a run.
type run struct {
	identity contract.Identity
	key      string
	// record has no attempts and no outcome: those of the newest segment are put there by each look.
	record   ledger.Record
	attempts []ledger.Attempt
	outcomes map[int]contract.Outcome
	// left says when each outcome was left, by its segment.
	left   map[int]time.Time
	inbox  []contract.Delivery
	holder *ledger.AttemptKey
	pod    types.UID // the holder's
	lease  time.Time
	// swept says that the session was deleted.
	swept bool
}

// New makes an empty ledger with the clock now.
func New(now func() time.Time) *Ledger {
	return &Ledger{now: now, runs: map[types.UID]*run{}, turned: map[types.UID]time.Time{}, tools: newTools()}
}

// Admit freezes a run, unless another one holds its key.
func (l *Ledger) Admit(_ context.Context, a ledger.Admission) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := a.Snapshot.Run
	if id.UID == "" || id.NamespaceUID == "" {
		return errors.New("a run without an identity")
	}
	if l.runs[id.UID] != nil {
		return nil
	}
	for _, uid := range l.order {
		if o := l.runs[uid]; o != nil && a.IdempotencyKey != "" && o.key == a.IdempotencyKey && o.identity.NamespaceUID == id.NamespaceUID {
			return &ledger.DuplicateError{Of: v1alpha1.RunReference{Name: o.identity.Name, UID: uid}}
		}
	}
	_, digest, err := a.Snapshot.Encode()
	if err != nil {
		return err
	}
	l.runs[id.UID] = &run{
		identity: id, key: a.IdempotencyKey, outcomes: map[int]contract.Outcome{}, left: map[int]time.Time{},
		record: ledger.Record{AdmittedAt: l.now(), SnapshotDigest: digest, Terms: a.Snapshot.Terms()},
	}
	l.order = append(l.order, id.UID)
	return nil
}

// Look copies what there is.
func (l *Ledger) Look(_ context.Context, uid types.UID) (*ledger.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.runs[uid]
	if r == nil {
		return nil, nil
	}
	out := r.record
	out.Now, out.Count, out.Decisions = l.now(), l.count, int64(len(r.inbox))
	if r.record.End != nil {
		end := *r.record.End
		out.End = &end
	}
	for c := range l.settled {
		if c.run == uid {
			out.Settled++
		}
	}
	for _, o := range r.outcomes {
		if o.Yield == contract.YieldWaiting {
			out.Waits++
		}
	}
	if len(r.attempts) == 0 {
		return &out, nil
	}
	last := r.attempts[len(r.attempts)-1].AttemptKey
	if r.holder != nil && *r.holder == last {
		out.LapsesAt = r.lease.Add(contract.LeasePatience)
	}
	newest := last.Segment
	for _, a := range r.attempts {
		if a.Segment == newest {
			out.Attempts = append(out.Attempts, a)
		}
	}
	if o, ok := r.outcomes[newest]; ok {
		out.ResultBytes, out.ResultDigest = int64(len(o.Result)), contract.Digest([]byte(o.Result))
		o.Result = contract.Clip(o.Result, contract.MaxInlineResult)
		o = ledger.Believed(o)
		out.Outcome, out.OutcomeAt = &o, r.left[newest]
		if o.Yield == contract.YieldWaiting {
			out.Inbox = r.newestInbox()
		}
	}
	return &out, nil
}

// BeginAttempt adds an attempt, once.
func (l *Ledger) BeginAttempt(_ context.Context, uid types.UID, k ledger.AttemptKey) error {
	return l.about(uid, func(r *run) error {
		if r.attempt(k) == nil {
			r.attempts = append(r.attempts, ledger.Attempt{AttemptKey: k, BegunAt: l.now()})
			slices.SortFunc(r.attempts, func(a, b ledger.Attempt) int {
				return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Attempt, b.Attempt))
			})
		}
		return nil
	})
}

// StoreJob keeps the first UID, and counts the attempt from then on.
func (l *Ledger) StoreJob(_ context.Context, uid types.UID, k ledger.AttemptKey, job types.UID) error {
	return l.about(uid, func(r *run) error {
		a := r.attempt(k)
		if a == nil {
			return ledger.ErrUnknown
		}
		if a.Job == "" {
			a.Job, a.BegunAt = job, l.now()
		}
		return nil
	})
}

// EndAttempt keeps the first end.
func (l *Ledger) EndAttempt(_ context.Context, uid types.UID, k ledger.AttemptKey, e ledger.AttemptEnd) error {
	return l.about(uid, func(r *run) error {
		a := r.attempt(k)
		if a == nil {
			return ledger.ErrUnknown
		}
		if e.Terminated && r.holder != nil && *r.holder == k && (len(e.Pods) == 0 || slices.Contains(e.Pods, r.pod)) {
			r.holder = nil
		}
		if a.EndedAt.IsZero() {
			e.Message = contract.Clip(e.Message, contract.MaxMessage)
			e.Terminated = false // nobody reads it back
			a.EndedAt, a.AttemptEnd = l.now(), e
		}
		return nil
	})
}

// Cancel commits the cancel of a run that has not ended.
func (l *Ledger) Cancel(_ context.Context, uid types.UID) error {
	return l.about(uid, func(r *run) error {
		if r.record.CancelledAt.IsZero() && r.record.End == nil {
			r.record.CancelledAt = l.now()
		}
		return nil
	})
}

// Finish keeps the first end.
func (l *Ledger) Finish(_ context.Context, uid types.UID, e ledger.End) (end ledger.End, err error) {
	err = l.about(uid, func(r *run) error {
		if r.record.End == nil {
			e.Message, e.At = contract.Clip(e.Message, contract.MaxMessage), l.now()
			r.record.End, r.holder = &e, nil
		}
		end = *r.record.End
		return nil
	})
	return end, err
}

// Provision keeps the namespace and the password of its login.
func (l *Ledger) Provision(_ context.Context, t ledger.Tenant) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.NamespaceUID == "" {
		return errors.New("a login without a namespace")
	}
	if err := t.CheckPassword(); err != nil {
		return err
	}
	if i := l.tenant(t.NamespaceUID); i >= 0 {
		l.turn(&t, l.tenants[i])
		l.tenants[i] = t
	} else {
		l.tenants = append(l.tenants, t)
	}
	return nil
}

// Tenants lists namespaces in the order in which they came.
func (l *Ledger) Tenants(context.Context) ([]ledger.Tenant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.tenants)
	for i := range out {
		out[i].Password = ""
	}
	return out, nil
}

// Unprovision drops a login and ends the runs of its namespace.
func (l *Ledger) Unprovision(_ context.Context, namespace types.UID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.runs {
		if r.identity.NamespaceUID == namespace && r.record.End == nil {
			r.holder = nil
			r.record.End = &ledger.End{Phase: v1alpha1.RunCancelled, Code: v1alpha1.ReasonCancelled, Message: "the namespace is gone", At: l.now()}
		}
	}
	if i := l.tenant(namespace); i >= 0 {
		l.tenants = slices.Delete(l.tenants, i, i+1)
	}
	return nil
}

// Unfinished lists runs in the order in which they were admitted.
func (l *Ledger) Unfinished(_ context.Context, before time.Time, limit int) ([]contract.Identity, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []contract.Identity
	for _, uid := range l.order {
		if r := l.runs[uid]; r != nil && len(out) < limit && r.record.End == nil && r.record.AdmittedAt.Before(before) {
			out = append(out, r.identity)
		}
	}
	return out, nil
}

// Beat counts on.
func (l *Ledger) Beat(_ context.Context, known int64) (ledger.Pulse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := ledger.Pulse{SetBack: l.count < known}
	for _, r := range l.runs {
		n := len(r.attempts)
		if p.SetBack && r.record.End == nil && !r.record.SetBack && n > 0 && r.attempts[n-1].EndedAt.IsZero() {
			r.record.SetBack = true
			p.Runs++
		}
	}
	l.count = max(l.count, known) + 1
	p.Count = l.count
	return p, nil
}

// Holder is the pod that holds claims in the fixtures.
const Holder types.UID = "pod"

// Hold makes a pod of an attempt the holder of the run's claim, for one lease, unless another holds it whose lease has not run out.
// It reports whether the claim was granted.
func (l *Ledger) Hold(uid types.UID, k ledger.AttemptKey, pod types.UID) bool {
	granted := false
	_ = l.about(uid, func(r *run) error {
		granted = (r.holder == nil || r.lease.Before(l.now())) && r.record.End == nil && r.record.CancelledAt.IsZero()
		if granted {
			r.holder, r.pod, r.lease = &k, pod, l.now().Add(contract.LeaseTTL)
		}
		return nil
	})
	return granted
}

// Lapse makes the holder's lease have run out so long ago.
func (l *Ledger) Lapse(uid types.UID, ago time.Duration) {
	_ = l.about(uid, func(r *run) error {
		r.lease = l.now().Add(-ago)
		return nil
	})
}

// Held reports whether a process holds the run's claim.
func (l *Ledger) Held(uid types.UID) bool {
	held := false
	_ = l.about(uid, func(r *run) error {
		held = r.holder != nil
		return nil
	})
	return held
}

// Yield leaves the outcome of a segment, once, and gives the claim back. A run that has ended gets none.
func (l *Ledger) Yield(uid types.UID, segment int, o contract.Outcome) {
	_ = l.about(uid, func(r *run) error {
		if _, there := r.outcomes[segment]; !there && r.record.End == nil {
			r.outcomes[segment], r.left[segment] = o, l.now()
			r.holder = nil
		}
		return nil
	})
}

// Use says what the run has used.
func (l *Ledger) Use(uid types.UID, u ledger.Usage, active time.Duration) {
	_ = l.about(uid, func(r *run) error {
		r.record.Usage, r.record.Active = u, active
		return nil
	})
}

// Append makes the transcript longer by so many entries.
func (l *Ledger) Append(uid types.UID, entries int) {
	_ = l.about(uid, func(r *run) error {
		r.record.Entries += int64(entries)
		return nil
	})
}

// Password is the password of a namespace's login, or empty if there is none.
func (l *Ledger) Password(namespace types.UID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.tenant(namespace); i >= 0 {
		return l.tenants[i].Password
	}
	return ""
}

// Every lists all attempts of a run, those at earlier segments included.
func (l *Ledger) Every(uid types.UID) (all []ledger.Attempt) {
	_ = l.about(uid, func(r *run) error {
		all = slices.Clone(r.attempts)
		return nil
	})
	return all
}

func (l *Ledger) about(uid types.UID, do func(*run) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.runs[uid]
	if r == nil {
		return ledger.ErrUnknown
	}
	return do(r)
}

func (l *Ledger) tenant(namespace types.UID) int {
	return slices.IndexFunc(l.tenants, func(t ledger.Tenant) bool { return t.NamespaceUID == namespace })
}

func (r *run) attempt(k ledger.AttemptKey) *ledger.Attempt {
	for i := range r.attempts {
		if r.attempts[i].AttemptKey == k {
			return &r.attempts[i]
		}
	}
	return nil
}
