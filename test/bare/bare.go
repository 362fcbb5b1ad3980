// Package bare runs segments without a cluster: the manager's ledger and the segment's loop against a real Postgres, with a scripted
// model and tools in memory. The login is that of the namespace, and a proxy counts what is sent.
package bare

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	ledgerpg "github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/segment/segmenttest"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

// Run is one run in a namespace of its own.
type Run struct {
	Database *pgtest.Database
	Proxy    *pgtest.Proxy
	Ledger   *ledgerpg.Ledger
	Store    *postgres.Store // through the proxy
	Tools    *segmenttest.Tools
	UID      types.UID
	// Namespace is the UID of the namespace.
	Namespace types.UID
}

// Open is a run that is not admitted yet, in the database that all tests share.
func Open(t *testing.T) *Run {
	t.Helper()
	return OpenIn(t, pgtest.Shared(t), types.UID(uuid.NewString()), types.UID(uuid.NewString()))
}

// OpenIn is a run of the UIDs in a database. No other may have the namespace at the same time: logins belong to the whole server.
func OpenIn(t *testing.T, db *pgtest.Database, namespace, run types.UID) *Run {
	t.Helper()
	r := &Run{Database: db, Proxy: pgtest.NewProxy(t, db.Tenant(t, namespace)), Tools: &segmenttest.Tools{}, UID: run, Namespace: namespace}
	var err error
	if r.Ledger, err = ledgerpg.Open(t.Context(), db.Manager); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Ledger.Close)
	if r.Store, err = postgres.Open(t.Context(), r.Proxy.DSN); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Store.Close)
	return r
}

// Snapshot is that of an agent that reads and orders, with wide limits.
func (r *Run) Snapshot() contract.Snapshot {
	s := contract.Snapshot{
		Revision: "clerk-1", Definition: "clerk", Task: "Order what is missing.",
		Run: contract.Identity{Namespace: "team", NamespaceUID: r.Namespace, Name: "bare", UID: r.UID, RootUID: r.UID},
		Agent: v1alpha1.CompiledAgent{
			Instructions: "Be brief.",
			Limits:       v1alpha1.Limits{Segments: 100, Turns: 600, ToolCalls: 600, ActiveSeconds: 36000},
			Segment:      v1alpha1.SegmentTimers{SoftSeconds: 600, HardSeconds: 900},
			Retry:        v1alpha1.Retry{MaxAttempts: 3, BaseSeconds: 1, CapSeconds: 60, MaxRetryAfterSeconds: 60},
		},
		Principal: v1alpha1.Principal{User: "jane"},
	}
	segmenttest.Offer(&s, map[string]v1alpha1.Effect{"look": v1alpha1.EffectRead, "order": v1alpha1.EffectSend})
	return s
}

// Allow is a policy that asks nobody.
func Allow() contract.PolicySet {
	return contract.PolicySet{Sources: []contract.PolicySource{{
		Namespace: "team", Name: "default", UID: "e1c0ffee-0000-4000-8000-00000000a110", Generation: 1,
		Rules: []v1alpha1.PolicyRule{{Name: "all", Match: v1alpha1.PolicyMatch{Tools: []string{"crm/*"}}, Action: v1alpha1.PolicyAllow}},
	}}}
}

// Admit admits the run under a policy.
func (r *Run) Admit(t *testing.T, s contract.Snapshot, p contract.PolicySet) {
	t.Helper()
	if err := r.Ledger.Project(t.Context(), r.Namespace, p); err != nil {
		t.Fatal(err)
	}
	if err := r.Ledger.Admit(t.Context(), ledger.Admission{Snapshot: s}); err != nil {
		t.Fatal(err)
	}
}

// Segment begins the attempt and works through one segment, as a pod would. An end by segmenttest.ErrKilled is that of a process
// which died: nothing is given back. stop may be nil.
func (r *Run) Segment(t *testing.T, k ledger.AttemptKey, m segment.Model, stop <-chan struct{}) *contract.Fault {
	t.Helper()
	if err := r.Ledger.BeginAttempt(t.Context(), r.UID, k); err != nil {
		t.Fatal(err)
	}
	c, session, err := segment.Take(t.Context(), r.Store, segment.Ask{Run: r.UID, Segment: k.Segment, Attempt: k.Attempt, Holder: "bare"})
	if err != nil {
		t.Fatal(err)
	}
	s := segment.Segment{Claim: c, Session: session, Model: m, Tools: r.Tools, Stop: stop, Emit: func(segment.Event) {}}
	fault, err := s.Run(t.Context())
	if err != nil && !errors.Is(err, segmenttest.ErrKilled) {
		t.Fatalf("segment %d: %v", k.Segment, err)
	}
	return fault
}

// Look is what the ledger knows of the run.
func (r *Run) Look(t *testing.T) *ledger.Record {
	t.Helper()
	rec, err := r.Ledger.Look(t.Context(), r.UID)
	if err != nil || rec == nil {
		t.Fatalf("looking at the run: %v, %v", rec, err)
	}
	return rec
}

// Query reads one row about the run, whose UID is the first parameter.
func (r *Run) Query(t *testing.T, sql string, into ...any) {
	t.Helper()
	if err := pgtest.QueryRow(t.Context(), r.Database.Superuser, sql, []any{r.UID}, into...); err != nil {
		t.Fatal(err)
	}
}

// Calls are proposals of tools, each with arguments of its own.
func Calls(tools ...string) segmenttest.Reply {
	var out []segment.ProposedCall
	for i, tool := range tools {
		out = append(out, segmenttest.Call(tool, `{"n":`+string(rune('0'+i))+`}`))
	}
	return segmenttest.Calls(out...)
}
