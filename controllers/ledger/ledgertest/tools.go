package ledgertest

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/approval/decide"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// tools are the tables of calls and what is around them.
type tools struct {
	policies  map[types.UID][]contract.PolicySet
	contracts map[generation][]contract.ToolContract
	settled   map[call]bool
	seq       int64
}

type generation struct {
	namespace, server types.UID
	number            int64
}

type call struct {
	run         types.UID
	turn, index int
}

func newTools() tools {
	return tools{policies: map[types.UID][]contract.PolicySet{}, contracts: map[generation][]contract.ToolContract{}, settled: map[call]bool{}}
}

// Project adds a version that differs and is not older. Nothing else runs meanwhile.
func (l *Ledger) Project(_ context.Context, namespace types.UID, set contract.PolicySet) error {
	body, err := set.Encode()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if all := l.policies[namespace]; len(all) > 0 {
		newest := all[len(all)-1]
		known := newest.Generations()
		for uid, generation := range set.Generations() {
			if generation < known[uid] {
				return ledger.ErrStale
			}
		}
		if there, _ := newest.Encode(); string(there) == string(body) {
			return nil
		}
	}
	set.Schema = contract.PolicySchema
	l.policies[namespace] = append(l.policies[namespace], set)
	return nil
}

// Policies are all versions of a namespace, oldest first.
func (l *Ledger) Policies(namespace types.UID) []contract.PolicySet {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.policies[namespace])
}

// Question tells how the ledger stands to a request.
func (l *Ledger) Question(_ context.Context, uid types.UID, turn, index int, request types.UID) (decide.Question, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := decide.Question{Now: l.now(), Settled: l.settled[call{uid, turn, index}]}
	r := l.runs[uid]
	if r == nil {
		return q, nil
	}
	q.Known, q.Over = true, r.record.End != nil || !r.record.CancelledAt.IsZero()
	for _, d := range r.inbox {
		if d.Request == request {
			q.Delivered = &d
		}
	}
	return q, nil
}

// Deliver adds to a run's inbox, once for each request.
func (l *Ledger) Deliver(_ context.Context, uid types.UID, d contract.Delivery) error {
	return l.about(uid, func(r *run) error {
		if slices.ContainsFunc(r.inbox, func(there contract.Delivery) bool { return there.Request == d.Request }) {
			return nil
		}
		if d.Phase == v1alpha1.ApprovalApproved && slices.ContainsFunc(r.inbox, func(there contract.Delivery) bool { return samePerson(there, d) }) {
			return ledger.ErrSamePerson
		}
		l.seq++
		d.Seq = l.seq
		r.inbox = append(r.inbox, d)
		return nil
	})
}

// samePerson reports whether a was the approval of another seat of the same call by who decided b.
func samePerson(a, b contract.Delivery) bool {
	return a.Turn == b.Turn && a.Index == b.Index && a.Digest == b.Digest && a.Seat != b.Seat && a.By == b.By && a.Phase == v1alpha1.ApprovalApproved
}

// Inbox is what was delivered to a run.
func (l *Ledger) Inbox(uid types.UID) (all []contract.Delivery) {
	_ = l.about(uid, func(r *run) error {
		all = slices.Clone(r.inbox)
		return nil
	})
	return all
}

// Settle says that a call is settled, as its segment does.
func (l *Ledger) Settle(uid types.UID, turn, index int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled[call{uid, turn, index}] = true
}

// newestInbox is what was decided about the newest turn that was asked about.
func (r *run) newestInbox() []contract.Delivery {
	newest := 0
	for _, d := range r.inbox {
		newest = max(newest, d.Turn)
	}
	return slices.DeleteFunc(slices.Clone(r.inbox), func(d contract.Delivery) bool { return d.Turn != newest })
}

// KeepContracts keeps those of a generation, and no others.
func (l *Ledger) KeepContracts(_ context.Context, namespace, server types.UID, number int64, list []contract.ToolContract) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := generation{namespace, server, number}
	list = slices.Clone(list)
	for i := range list {
		schema, err := contract.Canonical(list[i].Schema)
		if err != nil {
			return err
		}
		list[i].Schema = schema
	}
	slices.SortFunc(list, func(a, b contract.ToolContract) int { return strings.Compare(a.Name, b.Name) })
	l.contracts[k] = list
	return nil
}

// Contracts are those of a generation.
func (l *Ledger) Contracts(_ context.Context, namespace, server types.UID, number int64) ([]contract.ToolContract, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.contracts[generation{namespace, server, number}]
	return slices.Clone(list[:min(len(list), contract.MaxTools+1)]), nil
}

// Pinned are the contracts of the given digests.
func (l *Ledger) Pinned(_ context.Context, namespace types.UID, pins []ledger.Pin) (map[ledger.Pin]contract.ToolContract, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[ledger.Pin]contract.ToolContract{}
	for k, list := range l.contracts {
		for _, t := range list {
			_, digest, err := t.Encode()
			if err != nil {
				return nil, err
			}
			if p := (ledger.Pin{Server: k.server, Digest: digest}); k.namespace == namespace && slices.Contains(pins, p) {
				found[p] = t
			}
		}
	}
	return found, nil
}
