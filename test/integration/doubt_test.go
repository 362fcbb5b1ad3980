package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// doubting opens a desk whose policy allows everything, whose definition says what follows when nobody knows what a call has done,
// and whose tool server pays every refund it is asked for.
func doubting(t *testing.T, rule v1alpha1.OnIndeterminate, change func(*v1alpha1.ToolServer)) *desk {
	t.Helper()
	o := candid
	o.Find = true
	d := openFor(t, o, change, []func(*v1alpha1.AgentDefinition){given.Doubts(rule)}, wants(refunds(1)), answer("Done."))
	d.rule(everything)
	return d
}

// lose starts a run whose one refund loses its outcome: in the mood, and with its process if that is killed.
func (d *desk) lose(mood toolserver.Mood, killed bool) {
	d.Helper()
	mood.Times, mood.Hang = 1, killed
	d.tools.Behave(toolserver.Refund, mood)
	r := d.start("doubted")
	d.eventually("the call has arrived", func() bool { return d.tools.Counts().Requests[toolserver.Refund] > 0 })
	if mood.Act {
		d.eventually("it is carried out", func() bool { return d.tools.Counts().Calls[toolserver.Refund] == 1 })
	}
	if killed {
		kill(d.T, processes(d.T, "segment", string(r.UID))...)
	}
}

// came checks what is written of the refund, how often the tool server was asked for it, and how often it paid.
func (d *desk) came(r *v1alpha1.AgentRun, kind, text string, requests, paid int) {
	d.Helper()
	rows := d.journal(r)
	if len(rows) != 1 || rows[0].Kind != kind || !strings.Contains(rows[0].Text, text) {
		d.Errorf("the journal says %+v, want %s with %q", rows, kind, text)
	}
	c := d.tools.Counts()
	if c.Requests[toolserver.Refund] != requests || c.Calls[toolserver.Refund] != paid || c.Effects != paid {
		d.Errorf("the tool server counted %+v, want %d requests and %d refunds", c, requests, paid)
	}
	var keys []string
	for _, q := range d.tools.Requests() {
		if q.Tool == toolserver.Refund {
			keys = append(keys, q.Header.Get("Idempotency-Key"))
		}
	}
	if slices.Sort(keys); len(slices.Compact(keys)) != 1 {
		d.Errorf("it was asked for with the keys %v", keys)
	}
}

// TestWhatCameOfACallIsAskedOfAPerson loses the outcome of a call, with its process or without, and goes on by what a person says.
func TestWhatCameOfACallIsAskedOfAPerson(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		killed         bool
		mood           toolserver.Mood
		says           string
		phase          v1alpha1.ApprovalPhase
		kind, text     string
		requests, paid int
	}{
		"it happened": {
			true,
			toolserver.Mood{Act: true},
			`{"verdict":"Happened","reason":"R-1 is booked"}`, v1alpha1.ApprovalHappened,
			"answered", "alice says that it took effect: R-1 is booked", 1, 1,
		},
		"it did not": {
			true, toolserver.Mood{}, `{"verdict":"NotHappened"}`, v1alpha1.ApprovalNotHappened, "failed", "alice says that it did not take effect", 1, 0,
		},
		"try again, of a process that was killed": {
			true, toolserver.Mood{}, `{"verdict":"Retry"}`, v1alpha1.ApprovalRetry, "answered", `"refund":"R-1"`, 2, 1,
		},
		"try again, of a call that got no answer": {
			false, toolserver.Mood{Status: 500}, `{"verdict":"Retry"}`, v1alpha1.ApprovalRetry, "answered", `"refund":"R-1"`, 2, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := doubting(t, v1alpha1.IndeterminateAsk, nil)
			d.approvers("default", "alice")
			d.lose(tc.mood, tc.killed)
			q := d.requested(1, v1alpha1.ApprovalPending)[0]
			if q.Spec.Type != v1alpha1.ApprovalIndeterminate || !strings.HasSuffix(q.Name, "-t0c0-ask1") || q.Spec.Pool != "default" || q.Spec.Note == "" {
				t.Errorf("asked %s: %+v", q.Name, q.Spec)
			}
			if refusal := d.says("alice", q.Name, `{"verdict":"Approved"}`); !strings.Contains(refusal, "answers another question") {
				t.Errorf("an approval says %q", refusal)
			}
			if refusal := d.says("alice", q.Name, tc.says); refusal != "" {
				t.Fatal(refusal)
			}
			d.requested(1, tc.phase)
			r := d.finished("doubted")
			d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
			d.came(r, tc.kind, tc.text, tc.requests, tc.paid)
			d.wantRequests(2)
		})
	}
}

// TestAProbeTellsWhatCameOfACall asks the tool server itself, which has paid or has not.
func TestAProbeTellsWhatCameOfACall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		killed         bool
		mood           toolserver.Mood
		text           string
		requests, paid int
	}{
		"it was paid, and the process killed":     {true, toolserver.Mood{Act: true}, `It took effect`, 1, 1},
		"it was not paid, and the process killed": {true, toolserver.Mood{}, `"refund":"R-1"`, 2, 1},
		"it was paid, and not answered":           {false, toolserver.Mood{Act: true, Drop: "whole"}, `"found":true`, 1, 1},
		"it was not paid, and not answered":       {false, toolserver.Mood{Status: 503}, `"refund":"R-1"`, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := doubting(t, v1alpha1.IndeterminateTellModel, func(s *v1alpha1.ToolServer) {
				s.Spec.Tools = append(s.Spec.Tools, v1alpha1.ToolDeclaration{Name: toolserver.FindRefund, Effect: v1alpha1.EffectRead})
				s.Spec.Tools[1].Probe = v1alpha1.Probe{Tool: toolserver.FindRefund, Arguments: `{'key': key}`, Happened: `answer.found`}
			})
			d.lose(tc.mood, tc.killed)
			r := d.finished("doubted")
			d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
			d.came(r, "answered", tc.text, tc.requests, tc.paid)
			if c := d.tools.Counts(); c.Requests[toolserver.FindRefund] != 1 {
				t.Errorf("the probe was asked %d times", c.Requests[toolserver.FindRefund])
			}
			d.wantRequests(2)
		})
	}
}

// TestARunFailsOverACallThatNobodyKnows is what onIndeterminate: FailRun says.
func TestARunFailsOverACallThatNobodyKnows(t *testing.T) {
	t.Parallel()
	d := doubting(t, v1alpha1.IndeterminateFailRun, nil)
	d.lose(toolserver.Mood{Act: true}, true)
	r := d.finished("doubted")
	d.want(r, v1alpha1.RunFailed, v1alpha1.ReasonCallIndeterminate)
	d.came(r, "indeterminate", "unknown", 1, 1)
	d.wantRequests(1)
}
