package chaos

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ekiden-dev/ekiden/test/chaos/judge"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestTheWitnessSeesWhoWrites writes as segments do, and as one does that has gone past the fence.
func TestTheWitnessSeesWhoWrites(t *testing.T) {
	t.Parallel()
	const run = "5f0c3f4e-0000-4000-8000-000000000001"
	conn := pgtest.Connect(t, pgtest.New(t).Superuser)
	call := func(generation, turn string) string {
		return `INSERT INTO ekiden.calls (run_uid, namespace_uid, generation, segment, turn, idx, tool, effect, digest, begun_at) VALUES ('` + run + `', '` + run + `', ` + generation + `, 0, ` + turn + `, 0, 't', 'Send', 'd', now())`
	}
	settle := func(generation string) string {
		return `UPDATE ekiden.calls SET generation = ` + generation + `, settled_at = now(), kind = 'answered', code = '', text = '', bytes = 0`
	}
	for _, sql := range []string{
		witness,
		`INSERT INTO ekiden.runs (run_uid, namespace_uid, namespace, name, root_uid, terms) VALUES ('` + run + `', '` + run + `', 'n', 'r', '` + run + `', '{}')`,
		`INSERT INTO ekiden.claims (run_uid, namespace_uid) VALUES ('` + run + `', '` + run + `')`,
		`UPDATE ekiden.claims SET generation = 1, holder = 'a', segment = 0, lease_until = now()`,
		`UPDATE ekiden.claims SET beat = now()`, // says nothing
		call("1", "0"),
		`UPDATE ekiden.claims SET generation = 2, holder = 'b'`,
		call("1", "1"), // past the fence
		`UPDATE ekiden.calls SET generation = 2 WHERE turn = 1`,
		`UPDATE ekiden.calls SET rule = 'again' WHERE turn = 1`, // by who was not told
		settle("2") + ` WHERE turn = 1`,
		settle("1") + ` WHERE turn = 1`,
		`INSERT INTO ekiden.transcript (run_uid, seq, namespace_uid, generation, segment, kind, schema, body) VALUES ('` + run + `', 0, '` + run + `', 1, 0, 'k', 1, '')`,
		`INSERT INTO ekiden.attempts (run_uid, namespace_uid, segment, attempt) VALUES ('` + run + `', '` + run + `', 0, 0)`,
		`UPDATE ekiden.claims SET generation = 3, holder = NULL, lease_until = NULL, final_at = now()`,
		`UPDATE ekiden.runs SET ended_at = now(), end_phase = 'Succeeded', end_code = 'Completed', end_message = ''`,
		`INSERT INTO ekiden.outcomes (run_uid, segment, namespace_uid, generation, yield) VALUES ('` + run + `', 0, '` + run + `', 2, 'completed')`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	got, err := seen(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	want := []judge.Mark{
		{What: judge.Claimed, Generation: 1, Current: 1, Holder: "a"},
		{What: judge.Begun, Generation: 1, Current: 1},
		{What: judge.Claimed, Generation: 2, Current: 2, Holder: "b"},
		{What: judge.Begun, Generation: 1, Current: 2, Turn: 1},
		{What: judge.Begun, Generation: 2, Current: 2, Turn: 1},
		{What: judge.Settled, Generation: 2, Current: 2, Turn: 1, Kind: "answered"},
		{What: judge.Altered, Generation: 1, Current: 2, Turn: 1, Kind: "answered"},
		{What: judge.Entered, Generation: 1, Current: 2, Kind: "k"},
		{What: judge.Tried, Current: 2},
		{What: judge.Final, Generation: 3, Current: 3},
		{What: judge.Ending, Current: 3, Over: true, Kind: "Succeeded"},
		{What: judge.Yielded, Generation: 2, Current: 3, Over: true, Kind: "completed"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(judge.Mark{}, "At", "Run")); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
}
