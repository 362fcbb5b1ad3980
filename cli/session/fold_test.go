package session_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/cli/session"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/record"
)

var began = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

func entry(t *testing.T, seconds int, generation int64, number int, e segment.Entry) session.EntryRow {
	t.Helper()
	r, err := record.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	return session.EntryRow{At: at(seconds), Generation: generation, Segment: number, Kind: r.Kind, Schema: r.Schema, Body: r.Body}
}

func answered(turn, try int, text string, finish segment.Finish) segment.Answered {
	return segment.Answered{Turn: turn, Try: try, Text: text, Finish: finish, Raw: json.RawMessage(`{"role":"assistant"}`)}
}

func used(seconds int, generation int64, turn, try int) session.UsageRow {
	return session.UsageRow{At: at(seconds), Generation: generation, Turn: turn, Try: try, Usage: session.Usage{Input: 100, CacheRead: 40, Output: 10, Cost: 1500}}
}

// rows are a run with a failed try, an answer cut at its bound, a checkpoint, a try that was cut with its pod, and an answer.
func rows(t *testing.T) session.Rows {
	t.Helper()
	snapshot := contract.Snapshot{
		Run: contract.Identity{Namespace: "support", Name: "triage-1", UID: "u1"}, Revision: "triage-6d5f8c", Task: "Help \x1b[31m4711\x1b[0m.\nSoon.",
		Principal: v1alpha1.Principal{User: "dana"},
		Agent:     v1alpha1.CompiledAgent{Model: v1alpha1.CompiledModel{Name: "gpt-main", Endpoint: v1alpha1.ModelEndpointSpec{Model: "gpt-5.4"}}},
	}
	body, digest, err := snapshot.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return session.Rows{
		Run: snapshot.Run, AdmittedAt: began, Snapshot: string(body), Digest: digest, Generation: 4, Segment: 1,
		End: &session.End{At: at(60), Phase: "Succeeded", Code: "Completed", Message: "the agent gave its answer"},
		Entries: []session.EntryRow{
			entry(t, 1, 1, 0, segment.AttemptFailed{Turn: 0, Try: 1, Retryable: true, Code: "RateLimited", Message: "slow down", NotBefore: at(5)}),
			entry(t, 6, 1, 0, answered(0, 2, "First \x1b]8;;https://evil.example\x07half", segment.FinishLength)),
			entry(t, 50, 3, 1, answered(1, 1, "second half.\nSegment 2\n", segment.FinishStop)),
		},
		Usage: []session.UsageRow{used(6, 1, 0, 2), used(30, 2, 1, 1), used(50, 3, 1, 1)},
		Outcomes: []session.OutcomeRow{
			{Segment: 0, Outcome: session.Outcome{At: at(10), Generation: 1, Outcome: contract.Outcome{Yield: contract.YieldCheckpoint}}},
			{Segment: 1, Outcome: session.Outcome{At: at(51), Generation: 3, Outcome: contract.Outcome{Yield: contract.YieldCompleted, Result: "First half"}}},
		},
	}
}

const told = `Run        support/triage-1  (u1)
Admitted   2026-12-01T10:00:00Z
Revision   triage-6d5f8c
Model      gpt-5.4 at gpt-main
Principal  dana
Snapshot   DIGEST

Task
  │ Help 4711.
  │ Soon.

Segment 0
  2026-12-01T10:00:01Z  turn 0, try 1: failed RateLimited, to be tried again from 2026-12-01T10:00:05Z: slow down
  2026-12-01T10:00:06Z  turn 0, try 2: gpt-5.4 answered, finish length; 100 tokens in (40 cached), 10 out, cost 0.0015
  │ First half
  2026-12-01T10:00:10Z  ended: checkpoint (its time was up; the next segment goes on)

Segment 1
  2026-12-01T10:00:30Z  turn 1, try 1: cut, because the segment had to stop; 100 tokens in (40 cached), 10 out, cost 0.0015
  2026-12-01T10:00:50Z  turn 1, try 1: gpt-5.4 answered, finish stop; 100 tokens in (40 cached), 10 out, cost 0.0015
  │ second half.
  │ Segment 2
  2026-12-01T10:00:51Z  ended: completed

End
2026-12-01T10:01:00Z  Succeeded (Completed): the agent gave its answer
Used: 300 tokens in (120 cached), 30 out, cost 0.0045
`

func TestASessionIsTold(t *testing.T) {
	t.Parallel()
	given := rows(t)
	got := session.Text(session.Fold(given))
	if diff := cmp.Diff(strings.Replace(told, "DIGEST", given.Digest, 1), got); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		given func(*session.Rows)
		want  func(session.Session) any
		is    any
	}{
		"what another version wrote is marked, and the rest told": {
			given: func(r *session.Rows) { r.Entries[1].Schema = 7 },
			want: func(s session.Session) any {
				return []bool{s.Segments[0].Steps[1].Unreadable != "", s.Segments[1].Steps[1].Answered != nil}
			},
			is: []bool{true, true},
		},
		"so is a snapshot": {
			given: func(r *session.Rows) { r.Snapshot = `{"schema":7}` },
			want: func(s session.Session) any {
				return []bool{s.Start.Unreadable != "", s.Start.Digest != "", len(s.Segments) == 2}
			},
			is: []bool{true, true, true},
		},
		"a segment that left nothing but its outcome is there": {
			given: func(r *session.Rows) { r.Entries, r.Usage = nil, nil },
			want:  func(s session.Session) any { return []int{len(s.Segments), len(s.Segments[0].Steps)} },
			is:    []int{2, 0},
		},
		"a run that nobody has worked on has no segment": {
			given: func(r *session.Rows) {
				r.Entries, r.Usage, r.Outcomes, r.Segment, r.Generation, r.End = nil, nil, nil, -1, 0, nil
			},
			want: func(s session.Session) any { return []bool{len(s.Segments) == 0, s.End == nil} },
			is:   []bool{true, true},
		},
		"a try of the newest claim that was cut belongs to its segment": {
			given: func(r *session.Rows) {
				r.Outcomes, r.Segment, r.Generation = r.Outcomes[:1], 1, 4
				r.Usage = append(r.Usage, used(55, 4, 2, 1))
			},
			want: func(s session.Session) any { return []any{len(s.Segments[1].Steps), s.Segments[1].Steps[2].Cut} },
			is:   []any{3, true},
		},
		"a message of a provider that is no JSON is a string": {
			given: func(r *session.Rows) {
				r.Entries = r.Entries[1:2]
				r.Entries[0].Body = `{"turn":0,"try":2,"finish":"stop","text":"x","raw":"{broken"}`
			},
			want: func(s session.Session) any { return string(s.Segments[0].Steps[0].Answered.Raw) },
			is:   `"{broken"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := rows(t)
			tc.given(&given)
			s := session.Fold(given)
			if diff := cmp.Diff(tc.is, tc.want(s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, err := json.Marshal(s); err != nil {
				t.Errorf("as JSON: %v", err)
			}
		})
	}
}

func TestTenant(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ dsn, address, want string }{
		"as the Secret says":                    {"postgres://u:hush@pg.db.svc:5432/ekiden?sslmode=require", "", "postgres://u:hush@pg.db.svc:5432/ekiden?sslmode=require"},
		"at the near end of a forwarding":       {"postgres://u:hush@pg.db.svc:5432/ekiden", "localhost:15432", "postgres://u:hush@localhost:15432/ekiden"},
		"without a password it is not used":     {"postgres://u@pg.db.svc/ekiden", "", ""},
		"words that are no URL are not used":    {"host=pg password=hush", "", ""},
		"nor is what a parser would stumble at": {"postgres://u:hush\x00@pg", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := session.Tenant(tc.dsn, tc.address)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("Tenant = %q, %v, want %q", got, err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

func TestReach(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"pg":                      "--namespace team service/pg 15432:5432",
		"pg.db:5433":              "--namespace db service/pg 15432:5433",
		"pg.db.svc.cluster.local": "--namespace db service/pg 15432:5432",
		"db.example.com":          "It is at db.example.com:5432",
		"10.0.0.7":                "It is at 10.0.0.7:5432",
		"[fd00::7]:5433":          "It is at [fd00::7]:5433",
	} {
		got := session.Reach("postgres://u:secret@"+host+"/ekiden", "team")
		if !strings.Contains(got, want) || strings.Contains(got, "secret") {
			t.Errorf("Reach(%s) = %q, want %q in it", host, got, want)
		}
	}
}
