package lifecycle

import (
	"cmp"
	"fmt"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// Memory is how far a run has come. Of a run that lives none of it ever goes back, so a ledger that tells less than is remembered
// elsewhere was restored to an earlier moment.
type Memory struct {
	// Snapshot is the digest of what the run was admitted with. Empty says that it was not, or that nobody remembers with what.
	Snapshot string
	// Admitted says that the run was admitted.
	Admitted bool
	// Newest is the newest attempt, or nil before the first.
	Newest *AttemptKey
	// Entries is the length of the transcript. Begun and Settled count calls, Decisions what was delivered into the inbox.
	Entries, Begun, Settled, Decisions int64
}

// lost names what is remembered and not held any more, or nothing.
func (m Memory) lost(held Memory) string {
	switch {
	case m.Snapshot != "" && m.Snapshot != held.Snapshot:
		return fmt.Sprintf("it was admitted with snapshot %s, and Postgres holds %s", m.Snapshot, held.Snapshot)
	case m.Newest != nil && (held.Newest == nil || compare(*held.Newest, *m.Newest) < 0):
		return fmt.Sprintf("attempt %d at segment %d was begun, and Postgres does not know it", m.Newest.Attempt, m.Newest.Segment)
	}
	for _, c := range []struct {
		what      string
		was, held int64
	}{
		{"entries of the transcript", m.Entries, held.Entries},
		{"calls that were begun", m.Begun, held.Begun},
		{"calls that were settled", m.Settled, held.Settled},
		{"decisions", m.Decisions, held.Decisions},
	} {
		if c.held < c.was {
			return fmt.Sprintf("there were %d %s, and Postgres holds %d", c.was, c.what, c.held)
		}
	}
	return ""
}

// Later is the later of two attempts, of which either may be nil.
func Later(a, b *AttemptKey) *AttemptKey {
	if a == nil || b != nil && compare(*a, *b) < 0 {
		return b
	}
	return a
}

func compare(a, b AttemptKey) int {
	return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Attempt, b.Attempt))
}

// setBack reports what the ledger has forgotten of the run, or nothing. Whatever the run did since must not be done again, and
// nobody knows what that is.
func (o Observed) setBack() string {
	switch {
	case o.Admission == nil && !o.Remembered.Admitted:
		return ""
	case o.Admission == nil:
		return "the run was admitted and Postgres no longer knows it: it was restored from a backup, or is another one"
	}
	if o.Admission.SetBack {
		return "Postgres was restored to a moment at which an attempt was at work, and what it did after that is not known"
	}
	lost := o.Remembered.lost(o.Admission.Held)
	if lost != "" {
		return "Postgres was restored to an earlier moment: " + lost
	}
	return ""
}

// restored is the end of an object that stands for the run of another object, which the ledger knows under that one's UID. This
// one would do everything again.
func (o Observed) restored() End {
	return End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonRestored, At: o.Now, Message: fmt.Sprintf(
		"this object was restored from a backup of run %s, or copied from it, and what that run did is not done again. To do the task anew, create a run without the annotation %s",
		o.Of, v1alpha1.AnnotationRunUID)}
}
