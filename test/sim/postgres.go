package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/approval/decide"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/ledger/ledgertest"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/memory"
)

// postgres is one database seen through both ports: claims, transcript, journal, outcomes, inbox and policies are in the store,
// runs, attempts and ends in the ledger. It keeps the laws of both suites.
type postgres struct {
	*ledgertest.Ledger
	store *memory.Store
	now   func() time.Time
	// ends is for the suite, which ends a run from many sides at once.
	ends        sync.Mutex
	first, last *ledger.End
	// versions is how many versions the policy has.
	versions int
	// seen are the attempts of which a process was seen to end. As in Postgres, the first is kept.
	seen map[ledger.AttemptKey]bool
	bugs Bugs
}

var _ ledger.Ledger = (*postgres)(nil)

func newPostgres(now func() time.Time) *postgres {
	return &postgres{Ledger: ledgertest.New(now), store: memory.New(now), now: now, seen: map[ledger.AttemptKey]bool{}}
}

func (p *postgres) Admit(ctx context.Context, a ledger.Admission) error {
	if err := p.Ledger.Admit(ctx, a); err != nil {
		return err
	}
	return p.store.Admit(a.Snapshot)
}

// Look joins the ledger's record with what segments have left.
func (p *postgres) Look(ctx context.Context, run types.UID) (*ledger.Record, error) {
	rec, err := p.Ledger.Look(ctx, run)
	if err != nil || rec == nil {
		return rec, err
	}
	if last := p.overwritten(); last != nil {
		rec.End = last
	}
	row, _ := p.store.Row(run)
	rec.Waits, rec.Active, rec.Entries, rec.Settled = row.Waits, row.Active, int64(row.Entries), int64(row.Settled)
	rec.Decisions = int64(len(p.store.Inbox(run)))
	if len(rec.Attempts) == 0 {
		return rec, nil
	}
	last := rec.Attempts[len(rec.Attempts)-1].AttemptKey
	if row.Held && last == (ledger.AttemptKey{Segment: row.Segment, Attempt: row.Attempt}) {
		rec.LapsesAt = row.LeaseUntil.Add(contract.LeasePatience)
	}
	o, at, ok := p.store.Outcome(run, last.Segment)
	if !ok {
		return rec, nil
	}
	rec.ResultBytes, rec.ResultDigest = int64(len(o.Result)), contract.Digest([]byte(o.Result))
	o.Result = contract.Clip(o.Result, contract.MaxInlineResult)
	o = p.bugs.misread(o)
	rec.Outcome, rec.OutcomeAt = &o, at
	if o.Yield == contract.YieldWaiting {
		rec.Inbox = newest(p.store.Inbox(run))
	}
	return rec, nil
}

// misread is an outcome as the ledger tells of it, with the bugs that are planted there.
func (b Bugs) misread(o contract.Outcome) contract.Outcome {
	if b.CursorAhead && o.Wait != nil {
		o.Wait.Cursor++
	}
	if b.OtherReason && o.Code == v1alpha1.ReasonCallIndeterminate {
		o.Code = v1alpha1.ReasonToolFailed
	}
	o = ledger.Believed(o)
	if b.WaitForgotten {
		o.Wait = nil
	}
	return o
}

// newest is what was decided about the newest turn that was asked about.
func newest(all []contract.Delivery) []contract.Delivery {
	turn, out := 0, all[:0]
	for _, d := range all {
		turn = max(turn, d.Turn)
	}
	for _, d := range all {
		if d.Turn == turn {
			out = append(out, d)
		}
	}
	return out
}

func (p *postgres) EndAttempt(ctx context.Context, run types.UID, k ledger.AttemptKey, e ledger.AttemptEnd) error {
	err := p.Ledger.EndAttempt(ctx, run, k, e)
	if err != nil || !e.Terminated {
		return err
	}
	row, _ := p.store.Row(run)
	if row.Held && len(e.Pods) > 0 && !slices.Contains(e.Pods, types.UID(row.Holder)) {
		return nil
	}
	if p.seen[k] || row.Generation == 0 || row.Segment != k.Segment || row.Attempt != k.Attempt {
		p.store.Drop(run, k.Segment, k.Attempt)
		return nil
	}
	p.seen[k] = true
	p.store.Free(run, k.Segment, k.Attempt)
	return nil
}

func (p *postgres) Cancel(ctx context.Context, run types.UID) error {
	err := p.Ledger.Cancel(ctx, run)
	if rec, _ := p.Ledger.Look(ctx, run); rec != nil && !rec.CancelledAt.IsZero() {
		p.store.Cancel(run)
	}
	return err
}

func (p *postgres) Finish(ctx context.Context, run types.UID, e ledger.End) (ledger.End, error) {
	end, err := p.Ledger.Finish(ctx, run, e)
	p.ends.Lock()
	defer p.ends.Unlock()
	if err == nil {
		p.store.Finish(run)
		p.first = &end
	}
	if err == nil && p.bugs.FinishTwice {
		e.At = p.now()
		p.last = &e
	}
	return end, err
}

// end is how the run has ended, or nil.
func (p *postgres) end() *ledger.End {
	if last := p.overwritten(); last != nil {
		return last
	}
	p.ends.Lock()
	defer p.ends.Unlock()
	return p.first
}

// overwritten is the end that was written in the place of the first, or nil.
func (p *postgres) overwritten() *ledger.End {
	p.ends.Lock()
	defer p.ends.Unlock()
	return p.last
}

func (p *postgres) Unprovision(ctx context.Context, namespace types.UID) error {
	for _, id := range p.unfinished() { //nolint:contextcheck // it is in memory
		if id.NamespaceUID == namespace {
			p.store.Finish(id.UID)
		}
	}
	return p.Ledger.Unprovision(ctx, namespace)
}

func (p *postgres) unfinished() []contract.Identity {
	all, _ := p.Unfinished(context.Background(), p.now().Add(time.Hour), 1<<20)
	return all
}

func (p *postgres) Project(ctx context.Context, namespace types.UID, set contract.PolicySet) error {
	before := len(p.Policies(namespace))
	err := p.Ledger.Project(ctx, namespace, set)
	if len(p.Policies(namespace)) > before {
		p.store.Policy(set)
		p.versions++
	}
	return err
}

func (p *postgres) Question(ctx context.Context, run types.UID, turn, index int, request types.UID) (decide.Question, error) {
	q, err := p.Ledger.Question(ctx, run, turn, index, request)
	c, _ := p.store.Call(run, segment.CallKey{Turn: turn, Index: index})
	q.Settled = c.Result != nil
	return q, err
}

func (p *postgres) Deliver(ctx context.Context, run types.UID, d contract.Delivery) error {
	before := len(p.Inbox(run))
	err := p.Ledger.Deliver(ctx, run, d)
	if len(p.Inbox(run)) > before {
		p.store.Decide(run, p.bugs.twisted(d))
	}
	return err
}

// twisted is a word as it is delivered.
func (b Bugs) twisted(d contract.Delivery) contract.Delivery {
	switch {
	case !b.WordsTwisted:
	case d.Phase == v1alpha1.ApprovalHappened:
		d.Phase = v1alpha1.ApprovalNotHappened
	case d.Phase == v1alpha1.ApprovalNotHappened:
		d.Phase = v1alpha1.ApprovalHappened
	}
	return d
}
