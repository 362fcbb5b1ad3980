// Package mutants plants bugs on purpose and looks whether a test finds them: those that would cost somebody a second payment or a
// lost run. A promise that no test could break is none.
//
// A bug is a change of text that is laid over the file while one package is tested; nothing in the working tree changes.
package mutants

// Mutant is a bug to plant.
type Mutant struct {
	// Name is one word, for the command line. Bug says what is wrong then.
	Name, Bug string
	// Edits are the changes that make it.
	Edits []Edit
	// Package is the package whose tests find it, Test the ones that do, as go test -run takes them.
	Package, Test string
}

// Edit is one change: Old, which stands in the file once, becomes New.
type Edit struct{ File, Old, New string }

const (
	session = "runtime/store/postgres/session.go"
	store   = "runtime/store/postgres/store.go"
	calls   = "runtime/store/postgres/calls.go"
	tool    = "runtime/tool/tool.go"
	trying  = "runtime/tool/call.go"
	loop    = "runtime/segment/run.go"
	next    = "runtime/segment/next.go"
	turn    = "runtime/segment/turn.go"
	journal = "runtime/segment/journal.go"
	gate    = "runtime/gate/judge.go"
	wait    = "runtime/contract/wait.go"
	ledger  = "controllers/ledger/postgres/ledger.go"
	inbox   = "controllers/ledger/postgres/approval.go"
	decide  = "controllers/agentrun/lifecycle/decide.go"
	waiting = "controllers/agentrun/lifecycle/waiting.go"
	act     = "controllers/agentrun/act.go"

	ofStore     = "./runtime/store/postgres"
	ofTool      = "./runtime/tool"
	ofSegment   = "./runtime/segment"
	ofGate      = "./runtime/gate"
	ofContract  = "./runtime/contract"
	ofLedger    = "./controllers/ledger/postgres"
	ofLifecycle = "./controllers/agentrun/lifecycle"
	ofManager   = "./controllers/agentrun"
)

// List is every mutant, by what it attacks.
var List = []Mutant{
	// The fence.
	{
		Name: "skip-the-fence", Bug: "a write is taken whatever its generation is",
		Edits: []Edit{
			{session, "WHERE run_uid = $1 AND lane = '' AND generation = $2::bigint AND holder IS NOT NULL AND final_at IS NULL\nRETURNING", "WHERE run_uid = $1 AND lane = '' AND $2::bigint IS NOT NULL AND holder IS NOT NULL AND final_at IS NULL\nRETURNING"},
			{session, "ours = `c.run_uid = $1 AND c.lane = '' AND c.generation = $2::bigint AND c.final_at IS NULL`", "ours = `c.run_uid = $1 AND c.lane = '' AND $2::bigint IS NOT NULL AND c.final_at IS NULL`"},
		},
		Package: ofStore, Test: "TestStore",
	},
	{
		Name: "reuse-a-generation", Bug: "a claim keeps the generation of the one before it",
		Edits:   []Edit{{store, "generation = generation + 1, holder = $3", "generation = greatest(generation, 1), holder = $3"}},
		Package: ofStore, Test: "TestStore",
	},
	{
		Name: "take-a-live-lease", Bug: "a claim is taken over while its holder beats",
		Edits:   []Edit{{store, "OR c.lease_until < now() AND", "OR c.lease_until IS NOT NULL AND"}},
		Package: ofStore, Test: "TestStore",
	},
	{
		Name: "forget-the-outage", Bug: "a lease that lapsed while Postgres was down is taken over at once",
		Edits:   []Edit{{store, " AND pg_postmaster_start_time() <= now() - $6::bigint * interval '1 millisecond')", " OR $6::bigint IS NULL)"}},
		Package: ofStore, Test: "TestALapsedLease",
	},
	{
		Name: "claim-without-the-lock", Bug: "a claim looks for an outcome before it holds the lock",
		Edits:   []Edit{{store, "	b.Queue(lockClaim, a.Run)\n", "	b.Queue(`SELECT $1::text`, a.Run)\n"}},
		Package: ofStore, Test: "TestWhoeverWaits|TestATakeover",
	},
	{
		Name: "two-outcomes", Bug: "a segment that has its outcome can be claimed again",
		Edits:   []Edit{{store, "AND NOT EXISTS (SELECT FROM ekiden.outcomes o WHERE o.run_uid = $1 AND o.lane = '' AND o.segment = next.segment)", ""}},
		Package: ofStore, Test: "TestStore",
	},
	{
		Name: "end-without-fencing", Bug: "the end of a run leaves its last segment's claim as it is",
		Edits:   []Edit{{ledger, "UPDATE ekiden.claims SET final_at = now(), generation = generation + 1, holder = NULL, lease_until = NULL", "UPDATE ekiden.claims SET beat = now()"}},
		Package: ofLedger, Test: "TestLedger",
	},
	{
		Name: "end-twice", Bug: "a run that has ended can be given another end",
		Edits:   []Edit{{ledger, "WHERE run_uid = $1 AND ended_at IS NULL`,\n\t\trun, string(e.Phase)", "WHERE run_uid = $1`,\n\t\trun, string(e.Phase)"}},
		Package: ofLedger, Test: "TestLedger",
	},
	{
		Name: "give-back-unseen", Bug: "the claim of an attempt is given back though nobody saw its process end",
		Edits:   []Edit{{ledger, "		if e.Terminated {\n", "		if true {\n"}},
		Package: ofLedger, Test: "TestLedger",
	},
	{
		Name: "take-one-pod-for-another", Bug: "the claim of one pod of a Job is given back because another was seen to end",
		Edits:   []Edit{{ledger, "OR split_part(holder, '/', 2) = ANY ($4::text[]))", "OR $4::text[] IS NOT NULL)"}},
		Package: ofLedger, Test: "TestLedger|TestASegmentIsToldWhichProcessIsGone",
	},

	// The journal.
	{
		Name: "forget-the-intent", Bug: "a call is sent without its intent",
		Edits:   []Edit{{tool, "if err := j.Begin(ctx); err != nil { // journal", "if err := error(nil); err != nil { // journal"}},
		Package: ofTool, Test: "Test",
	},
	{
		Name: "settle-before-the-call", Bug: "a call is settled before it is sent",
		Edits:   []Edit{{tool, "	answer, err := c.make(ctx, j.Wanted) // call\n", "	_ = j.Settle(ctx, segment.CallResult{Kind: segment.ResultAnswered})\n	answer, err := c.make(ctx, j.Wanted) // call\n"}},
		Package: ofTool, Test: "Test",
	},
	{
		Name: "begin-although-cancelled", Bug: "a call begins after the cancel was committed",
		Edits:   []Edit{{calls, "c.cancelled_at IS NULL AS wanted", "true AS wanted"}},
		Package: ofStore, Test: "TestStore",
	},
	{
		Name: "begin-under-an-older-policy", Bug: "a call begins that was judged by a policy which is no longer the newest",
		Edits:   []Edit{{calls, "$4::bigint = (SELECT coalesce(max(p.version), 0)", "$4::bigint <= (SELECT coalesce(max(p.version), 0)"}},
		Package: ofStore, Test: "TestStore",
	},
	{
		Name: "repeat-an-orphan", Bug: "a call that a lost process may have sent is sent again, whatever its tool is",
		Edits:   []Edit{{journal, "return c.Effect == v1alpha1.EffectRead || c.Idempotency == v1alpha1.IdempotencyKey", "return true || c.Idempotency == v1alpha1.IdempotencyKey"}},
		Package: ofSegment, Test: "TestCalls|TestNextLawsOfCalls",
	},
	{
		Name: "repeat-what-may-be-done", Bug: "a call of which nobody knows whether it was carried out is tried again, whatever its tool is",
		Edits:   []Edit{{trying, "harmless := f.Certainty == wire.NotDone || c.order.repeatable()", "harmless := true"}},
		Package: ofTool, Test: "Test",
	},
	{
		Name: "another-key", Bug: "a call that is made again has another Idempotency-Key",
		Edits:   []Edit{{gate, `run, "", turn, index))`, `run, "", turn, index+len(run)))`}},
		Package: ofGate, Test: "Test",
	},

	// Retries.
	{
		Name: "retry-in-two-places", Bug: "the loop asks the model again before it says that a try has failed",
		Edits: []Edit{{loop, "	cut := context.Cause(act)\n	release()\n	usage := Usage{", `	if err != nil && act.Err() == nil {
		answer, err = w.Model.Answer(act, w.prompt(), func(string) {})
	}
	cut := context.Cause(act)
	release()
	usage := Usage{`}},
		Package: ofSegment, Test: "TestRun",
	},
	{
		Name: "count-disruptions", Bug: "an eviction counts as a crash",
		Edits:   []Edit{{"controllers/agentrun/lifecycle/observed.go", "return e.Class == Crashed ||", "return e.Class == Crashed || e.Class == Disrupted ||"}},
		Package: ofLifecycle, Test: "TestDecide",
	},
	{
		Name: "never-poison", Bug: "a segment that crashes is tried again without end",
		Edits:   []Edit{{decide, "if counted >= int(a.Terms.Retry.MaxAttempts) {", "if counted > int(a.Terms.Retry.MaxAttempts)+1000 {"}},
		Package: ofLifecycle, Test: "TestDecide",
	},
	{
		Name: "forget-retry-after", Bug: "what the endpoint asked to wait is not carried over an attempt",
		Edits:   []Edit{{decide, "		e.NotBefore = o.Now.Add(o.Sighting.Pause)\n", "		e.NotBefore = o.Now\n"}},
		Package: ofLifecycle, Test: "TestDecide",
	},
	{
		Name: "job-before-its-row", Bug: "a Job is created before the ledger knows of its attempt",
		Edits:   []Edit{{act, "	if err := r.Ledger.BeginAttempt(ctx, run.UID, k); err != nil {\n		return found{}, err\n	}\n", ""}},
		Package: ofManager, Test: "Test",
	},

	// Ends, cancels, decisions.
	{
		Name: "outcome-beats-cancel", Bug: "an outcome that came after the committed cancel decides how the run ends",
		Edits:   []Edit{{decide, "	case !a.CancelledAt.IsZero():\n		return o.cancel()\n", "	case !a.CancelledAt.IsZero() && a.Outcome == nil:\n		return o.cancel()\n"}},
		Package: ofLifecycle, Test: "TestDecide",
	},
	{
		Name: "segments-without-limit", Bug: "a checkpoint on the last allowed segment starts another",
		Edits:   []Edit{{decide, "next.Segment-a.Waits < int(a.Terms.Limits.Segments):", "next.Segment-a.Waits < int(a.Terms.Limits.Segments)+1000:"}},
		Package: ofLifecycle, Test: "TestDecide",
	},
	{
		Name: "approve-other-arguments", Bug: "an approval holds for other arguments than those that were shown",
		Edits:   []Edit{{wait, "d.Index != index || d.Digest != digest {", "d.Index != index {"}},
		Package: ofContract, Test: "Test",
	},
	{
		Name: "deliver-twice", Bug: "a decision can be delivered twice",
		Edits:   []Edit{{inbox, "ON CONFLICT (request_uid) DO NOTHING`", "ON CONFLICT (request_uid) DO UPDATE SET phase = excluded.phase`"}},
		Package: ofLedger, Test: "TestLedger",
	},
	{
		Name: "ask-twice", Bug: "a seat is asked again though its request is open",
		Edits:   []Edit{{waiting, "			return r, r.Ordinal\n", "			next = max(next, r.Ordinal+1)\n"}},
		Package: ofLifecycle, Test: "Test",
	},
	{
		Name: "answer-after-the-limit", Bug: "a turn limit is seen one turn late",
		Edits:   []Edit{{next, "if t.turns() >= int(s.Limits.Turns) {", "if t.turns() > int(s.Limits.Turns) {"}},
		Package: ofSegment, Test: "TestNext",
	},
	{
		Name: "call-beyond-the-limit", Bug: "a turn with more calls than remain makes one more",
		Edits:   []Edit{{turn, "left := int(s.Limits.ToolCalls) - s.Journal.sent()", "left := int(s.Limits.ToolCalls) - s.Journal.sent() + 1"}},
		Package: ofSegment, Test: "TestNextLawsOfCalls|TestCalls",
	},
}
