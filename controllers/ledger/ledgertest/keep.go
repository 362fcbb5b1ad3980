package ledgertest

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
)

// Old lists trees in the order in which their roots were admitted.
func (l *Ledger) Old(_ context.Context, what ledger.Kept, keep time.Duration, after ledger.Tree, limit int) ([]ledger.Tree, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []ledger.Tree
	behind := after.Root == ""
	for _, uid := range l.order {
		r := l.runs[uid]
		if r == nil || r.identity.RootUID != uid {
			continue
		}
		if t, old := l.tree(uid, keep); behind && old && len(out) < limit && (what == ledger.Runs || !r.swept) {
			out = append(out, t)
		}
		behind = behind || uid == after.Root
	}
	return out, nil
}

// tree is a tree, and whether all of it ended longer ago than keep.
func (l *Ledger) tree(root types.UID, keep time.Duration) (t ledger.Tree, old bool) {
	t, old = ledger.Tree{Root: root}, true
	for _, uid := range l.order {
		r := l.runs[uid]
		if r == nil || r.identity.RootUID != root {
			continue
		}
		t.Runs = append(t.Runs, uid)
		old = old && r.record.End != nil && r.record.End.At.Before(l.now().Add(-keep))
		if uid == root && r.record.End != nil {
			t.EndedAt = r.record.End.At
		}
	}
	return t, old
}

// Drop deletes a run at a time.
func (l *Ledger) Drop(_ context.Context, what ledger.Kept, keep time.Duration, roots []types.UID, _ int) (ledger.Dropped, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, root := range roots {
		t, old := l.tree(root, keep)
		if !old {
			continue
		}
		for i := len(t.Runs) - 1; i >= 0; i-- { // the root was admitted first, and goes last
			r := l.runs[t.Runs[i]]
			if what == ledger.Runs {
				delete(l.runs, t.Runs[i])
				return ledger.Dropped{"runs": 1}, nil
			}
			if !r.swept {
				r.swept, r.attempts, r.inbox, r.record.Entries = true, nil, nil, 0
				return ledger.Dropped{"snapshots": 1}, nil
			}
		}
	}
	return ledger.Dropped{}, nil
}

// DropPolicies deletes nothing: this ledger does not know when a version was written.
func (l *Ledger) DropPolicies(context.Context, time.Duration, int) (ledger.Dropped, error) {
	return ledger.Dropped{}, nil
}
