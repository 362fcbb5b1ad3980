package segment_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func fresh(change ...func(*segment.Situation)) segment.Situation {
	s := segment.Situation{
		Now: noon, SoftEnd: noon.Add(90 * time.Second), HardEnd: noon.Add(120 * time.Second),
		Limits: v1alpha1.Limits{Segments: 3, Turns: 3, ActiveSeconds: 600}, Retry: v1alpha1.Retry{MaxAttempts: 3, CapSeconds: 60, MaxRetryAfterSeconds: 120},
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func stopping(s *segment.Situation)    { s.Stopping = true }
func cancelled(s *segment.Situation)   { s.Cancelled = true }
func acted(s *segment.Situation)       { s.Appended = 1 }
func late(s *segment.Situation)        { s.Now = s.SoftEnd }
func lastSegment(s *segment.Situation) { s.Segment = 2 }
func activeSpent(s *segment.Situation) { s.Active = 600 * time.Second }
func says(text string) segment.Answered {
	return segment.Answered{Text: text, Finish: segment.FinishStop}
}

func cut(text string) segment.Answered {
	return segment.Answered{Text: text, Finish: segment.FinishLength}
}

func failed(code string, notBefore time.Time) segment.AttemptFailed {
	return segment.AttemptFailed{Retryable: true, Code: code, Message: "try later", NotBefore: notBefore}
}

func TestNext(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		given segment.Transcript
		in    segment.Situation
		want  segment.Act
	}{
		"an empty session asks the model":                {nil, fresh(), segment.Think{Turn: 0, Try: 1}},
		"an answer completes the run":                    {segment.Transcript{says("42")}, fresh(acted), yield(contract.YieldCompleted, "", "", "42")},
		"a cut answer is continued":                      {segment.Transcript{cut("4")}, fresh(acted), segment.Think{Turn: 1, Try: 1}},
		"a continuation is joined to what it continues":  {segment.Transcript{cut("4"), says("2")}, fresh(acted), yield(contract.YieldCompleted, "", "", "42")},
		"an answer on the last turn completes":           {segment.Transcript{cut("a"), cut("b"), says("c")}, fresh(acted), yield(contract.YieldCompleted, "", "", "abc")},
		"a cut answer on the last turn is a ceiling":     {segment.Transcript{cut("a"), cut("b"), cut("c")}, fresh(acted), yield(contract.YieldCeiling, v1alpha1.ReasonLimitReached, "limits.turns: 3 of 3 used", "abc")},
		"active time used up before a turn is a ceiling": {nil, fresh(activeSpent), yield(contract.YieldCeiling, v1alpha1.ReasonLimitReached, "limits.activeSeconds: 600 of 600 used", "")},
		"a cancel wins against an answer":                {segment.Transcript{says("42")}, fresh(cancelled, acted), yield(contract.YieldCancelled, "", "", "")},
		"an answer wins against a stop":                  {segment.Transcript{says("42")}, fresh(stopping, late, acted), yield(contract.YieldCompleted, "", "", "42")},
		"work after the soft timer is handed over":       {segment.Transcript{cut("a")}, fresh(late, acted), yield(contract.YieldCheckpoint, "", "", "")},
		"work of a pod that is told to go is handed over": {
			segment.Transcript{cut("a")}, fresh(stopping, acted), yield(contract.YieldCheckpoint, "", "", ""),
		},
		"a checkpoint on the last segment is a ceiling": {
			segment.Transcript{cut("a")}, fresh(late, acted, lastSegment), yield(contract.YieldCeiling, v1alpha1.ReasonLimitReached, "limits.segments: 3 of 3 used", "a"),
		},
		"a first act begins however late it is": {nil, fresh(late), segment.Think{Turn: 0, Try: 1}},
		"a pod told to go before it did anything leaves": {
			nil, fresh(stopping), segment.Leave{Fault: contract.Fault{Code: contract.FaultStopped, Message: "the pod was told to stop before its first act ended"}},
		},
		"a call of a tool that was not offered ends the run": {
			segment.Transcript{segment.Answered{Calls: []segment.ProposedCall{{Tool: "rm"}}, Finish: segment.FinishCalls}},
			fresh(acted),
			yield(contract.YieldFailed, v1alpha1.ReasonUnknownTool, `the model called "rm", which the agent was not offered; nothing of that turn was called`, ""),
		},
		"a refusal ends the run": {segment.Transcript{segment.Answered{Finish: segment.FinishRefused}}, fresh(acted), yield(contract.YieldFailed, v1alpha1.ReasonModelRefused, "the model declined to answer", "")},
		"silence ends the run":   {segment.Transcript{says(" \n")}, fresh(acted), yield(contract.YieldFailed, v1alpha1.ReasonEmptyAnswer, "the model ended its turn without a word", "")},
		"thought without a word ends the run": {
			segment.Transcript{cut("")},
			fresh(acted),
			yield(contract.YieldFailed, v1alpha1.ReasonEmptyAnswer, "the model used up its output tokens before it wrote anything: raise spec.sampling.maxOutputTokens", ""),
		},
		"silence after words is the end of them": {segment.Transcript{cut("42"), says("")}, fresh(acted), yield(contract.YieldCompleted, "", "", "42")},
		"a failed try is made again when it is due": {
			segment.Transcript{failed("Overloaded", noon)}, fresh(acted), segment.Think{Turn: 0, Try: 2},
		},
		"a failed try that is due soon is waited for": {
			segment.Transcript{failed("Overloaded", noon.Add(time.Second))}, fresh(acted), segment.Pause{Until: noon.Add(time.Second)},
		},
		"a failed try that is due after the soft timer is left to another attempt": {
			segment.Transcript{failed("RateLimited", noon.Add(90*time.Second))},
			fresh(acted),
			segment.Leave{Fault: contract.Fault{Code: contract.FaultDeferred, Message: "try later", NotBeforeSeconds: 90}},
		},
		"a failed try that is due later than any pause lasts was written by another clock, and is made again": {
			segment.Transcript{failed("RateLimited", noon.Add(121*time.Second))}, fresh(acted), segment.Think{Turn: 0, Try: 2},
		},
		"a pod told to go leaves the wait to another attempt": {
			segment.Transcript{failed("RateLimited", noon.Add(1500*time.Millisecond))},
			fresh(acted, stopping),
			segment.Leave{Fault: contract.Fault{Code: contract.FaultDeferred, Message: "try later", NotBeforeSeconds: 2}},
		},
		"tries are counted over segments and attempts": {
			segment.Transcript{failed("Overloaded", noon), failed("Overloaded", noon), failed("StreamCut", noon)},
			fresh(),
			yield(contract.YieldFailed, v1alpha1.ReasonModelUnavailable, "3 of 3 tries failed, the last with StreamCut: try later", ""),
		},
		"a fault from which a turn recovered does not count in a later one": {
			segment.Transcript{failed("Overloaded", noon), failed("Overloaded", noon), cut("a"), failed("Overloaded", noon)}, fresh(acted), segment.Think{Turn: 1, Try: 2},
		},
		"a refused request ends the run after one": {
			segment.Transcript{segment.AttemptFailed{Code: v1alpha1.ReasonCredentialsRefused, Message: "401"}},
			fresh(acted),
			yield(contract.YieldFailed, v1alpha1.ReasonCredentialsRefused, "401", ""),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, segment.Next(tc.given, tc.in)); diff != "" {
				t.Errorf("Next() (-want +got):\n%s", diff)
			}
		})
	}
}

func yield(y contract.Yield, code, message, result string) segment.Act {
	return segment.Yield{Outcome: contract.Outcome{Yield: y, Code: code, Message: message, Result: result}}
}

// TestNextLaws walks every transcript of up to four entries in every situation.
func TestNextLaws(t *testing.T) {
	t.Parallel()
	entries := []segment.Entry{
		says("x"), says(""), cut("x"), failed("Overloaded", noon), failed("RateLimited", noon.Add(100*time.Second)), failed("RateLimited", noon.Add(time.Hour)),
		segment.AttemptFailed{Code: "Refused"},
		segment.Answered{Finish: segment.FinishCalls, Calls: []segment.ProposedCall{{Tool: "t"}}},
	}
	situations := everySituation()
	n := 0
	var walk func(t segment.Transcript)
	check := func(tr segment.Transcript, s segment.Situation) {
		n++
		act := segment.Next(tr, s)
		if !reflect.DeepEqual(act, segment.Next(tr, s)) {
			t.Fatalf("two acts for one situation: %+v in %+v", tr, s)
		}
		switch a := act.(type) {
		case segment.Think:
			if s.Cancelled || s.Stopping || s.Active >= 600*time.Second || a.Turn >= 3 || a.Try > 3 {
				t.Fatalf("asked the model although it must not: %+v in %+v", tr, s)
			}
			if s.Appended > 0 && !s.Now.Before(s.SoftEnd) {
				t.Fatalf("began something new after the soft timer: %+v in %+v", tr, s)
			}
		case segment.Invoke, segment.Refuse, segment.Probe:
			t.Fatalf("%T without a tool: %+v in %+v", a, tr, s)
		case segment.Pause:
			if !a.Until.After(s.Now) || !a.Until.Before(s.SoftEnd) || s.Stopping {
				t.Fatalf("waited for nothing, or too long: %+v in %+v", tr, s)
			}
		case segment.Leave:
			if a.Fault.Code == "" || s.Cancelled {
				t.Fatalf("left without a reason, or although cancelled: %+v in %+v", tr, s)
			}
		case segment.Yield:
			o := a.Outcome
			if o.Yield == contract.YieldCheckpoint && (s.Appended == 0 || s.Segment+1 >= 3) {
				t.Fatalf("a checkpoint that adds nothing, or on the last segment: %+v in %+v", tr, s)
			}
			if o.Yield == contract.YieldCompleted && o.Result == "" {
				t.Fatalf("completed without a result: %+v", tr)
			}
			if (o.Yield == contract.YieldFailed || o.Yield == contract.YieldCeiling) && o.Code == "" {
				t.Fatalf("ended without a code: %+v in %+v", tr, s)
			}
		}
	}
	walk = func(tr segment.Transcript) {
		for _, s := range situations {
			check(tr, s)
		}
		if len(tr) < 4 {
			for _, e := range entries {
				walk(append(tr[:len(tr):len(tr)], e))
			}
		}
	}
	walk(nil)
	if n < 100_000 {
		t.Errorf("only %d cases", n)
	}
}

func everySituation() []segment.Situation {
	switches := []func(*segment.Situation){stopping, cancelled, acted, late, lastSegment, activeSpent}
	var all []segment.Situation
	for mask := range 1 << len(switches) {
		s := fresh()
		for i, on := range switches {
			if mask&(1<<i) != 0 {
				on(&s)
			}
		}
		all = append(all, s)
	}
	return all
}
