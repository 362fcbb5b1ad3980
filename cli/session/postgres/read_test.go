package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/cli/session"
	"github.com/ekiden-dev/ekiden/cli/session/postgres"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	store "github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/runtime/store/storetest"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestRead lets the segment's own store write a session and reads it with the login of the namespace, and of another one.
func TestRead(t *testing.T) {
	t.Parallel()
	db, namespace := pgtest.New(t), types.UID(uuid.NewString())
	dsn, stranger := db.Tenant(t, namespace), db.Tenant(t, types.UID(uuid.NewString()))
	snapshot := storetest.Snapshot(namespace)
	run := snapshot.Run.UID
	admit(t, db, snapshot)

	rows, err := postgres.Read(t.Context(), dsn, run)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(snapshot.Run, rows.Run); diff != "" || rows.Segment != -1 {
		t.Errorf("before the first segment: segment %d, run (-want +got):\n%s", rows.Segment, diff)
	}

	intent := storetest.Intent(0, 0)
	intent.Rule, intent.Approvals, intent.By = "team/money/orders", []types.UID{types.UID(uuid.NewString())}, []string{"jane", "bob"}
	if err := pgtest.Exec(t.Context(), db.Superuser, `
INSERT INTO ekiden.inbox (run_uid, namespace_uid, kind, request_uid, turn, idx, digest, seat, seats, phase, decided_by)
VALUES ('`+string(run)+`', '`+string(namespace)+`', 'approval', '`+uuid.NewString()+`', 0, 0, '', 1, 1, 'Approved', 'jane')`); err != nil {
		t.Fatal(err)
	}
	write(t, dsn, run, intent)
	rows, err = postgres.Read(t.Context(), dsn, run)
	if err != nil {
		t.Fatal(err)
	}
	s := session.Fold(rows)
	if len(s.Segments) != 1 || len(s.Segments[0].Steps) != 1 || s.Segments[0].Outcome == nil {
		t.Fatalf("session %+v", s)
	}
	step := s.Segments[0].Steps[0]
	if step.Answered == nil || step.Answered.Text != "done" || step.Usage == nil || step.Usage.Input != 110 || step.Usage.Cost != 7 {
		t.Errorf("step %+v", step)
	}
	if diff := cmp.Diff(intent.By, step.Calls[0].ApprovedBy); diff != "" || len(step.Calls) != 2 {
		t.Fatalf("%d calls, approved by (-want +got):\n%s", len(step.Calls), diff)
	}
	sent, refused := step.Calls[0], step.Calls[1]
	if sent.BegunAt.IsZero() || sent.Result != nil || sent.Key != intent.Key || sent.Rule != intent.Rule || len(sent.Approvals) != 1 || len(sent.Decisions) != 1 || sent.Decisions[0].By != "jane" {
		t.Errorf("call that was begun: %+v", sent)
	}
	if !refused.BegunAt.IsZero() || refused.SettledAt.IsZero() || refused.Result == nil || refused.Result.Text == "" {
		t.Errorf("call that was refused: %+v", refused)
	}
	if w := s.Segments[0].Outcome.Wait; w == nil || w.Asks[0].Pool != "finance" {
		t.Errorf("it waits for %+v", w)
	}
	if text := session.Text(s); !strings.Contains(text, snapshot.Run.Name) {
		t.Errorf("text:\n%s", text)
	}
	if result, err := postgres.Result(t.Context(), dsn, run); err != nil || result != "the whole result" {
		t.Errorf("result %q, %v", result, err)
	}

	for name, tc := range map[string]struct {
		dsn  string
		run  types.UID
		want error
	}{
		"a run of another namespace is not shown": {stranger, run, postgres.ErrUnknown},
		"an unknown run is not shown":             {dsn, types.UID(uuid.NewString()), postgres.ErrUnknown},
		"a wrong password is told as such":        {strings.Replace(dsn, ":test@", ":hush@", 1), run, postgres.ErrLogin},
		"nobody listens":                          {"postgres://u:hush@127.0.0.1:1/ekiden", run, postgres.ErrNotReached},
		"a DSN that is none":                      {"postgres://u:hush@host:port/x", run, session.ErrDSN},
		"a database without tables":               {pgtest.Empty(t).Manager, run, postgres.ErrSchema},
	} {
		_, err := postgres.Read(t.Context(), tc.dsn, tc.run)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the error tells the password: %v", name, err)
		}
	}
}

func admit(t *testing.T, db *pgtest.Database, s contract.Snapshot) {
	t.Helper()
	body, digest, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	ids := quote(string(s.Run.UID)) + ", " + quote(string(s.Run.NamespaceUID))
	err = pgtest.Exec(t.Context(), db.Superuser, `
INSERT INTO ekiden.runs (run_uid, namespace_uid, namespace, name, root_uid, terms) VALUES (`+ids+`, `+quote(s.Run.Namespace)+`, `+quote(s.Run.Name)+`, `+quote(string(s.Run.RootUID))+`, '{}');
INSERT INTO ekiden.snapshots (run_uid, namespace_uid, digest, body) VALUES (`+ids+`, `+quote(digest)+`, `+quote(string(body))+`);
INSERT INTO ekiden.claims (run_uid, namespace_uid) VALUES (`+ids+`)`)
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, dsn string, run types.UID, intent segment.Intent) {
	t.Helper()
	s, err := store.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, writer, err := s.Claim(t.Context(), segment.Ask{Run: run, Segment: segment.Newest, Holder: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Append(t.Context(), 0, []segment.Entry{storetest.Answer(0, "done")}, storetest.Spent(0, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Begin(t.Context(), intent); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Settle(t.Context(), storetest.Settlement(0, 1, segment.ResultRefused)); err != nil {
		t.Fatal(err)
	}
	waiting := contract.Outcome{Yield: contract.YieldWaiting, Result: "the whole result", Wait: &contract.Wait{Asks: []contract.Ask{{Pool: "finance"}}}}
	if err := writer.Yield(t.Context(), waiting, nil); err != nil {
		t.Fatal(err)
	}
}
