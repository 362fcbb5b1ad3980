package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

func TestResult(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		given *v1alpha1.AgentRun
		want  said // err is what it contains
	}{
		"a result is printed as it is": {
			aRun("r", completed("An \x1b[1manswer\x1b[0m\nwithout a newline")),
			said{exitOK, "An \x1b[1manswer\x1b[0m\nwithout a newline", ""},
		},
		"of a partial one it is said, elsewhere": {
			aRun("r", completed("half"), func(r *v1alpha1.AgentRun) {
				r.Status.Conditions[0].Message = "stopped with a partial result: limits.turns: 2 of 2 used"
				r.Status.Result.PartialReason = v1alpha1.ReasonLimitReached
			}),
			said{exitOK, "half", "The result is partial: Completed: stopped with a partial result: limits.turns"},
		},
		"one that was changed is not printed": {
			aRun("r", completed("true"), func(r *v1alpha1.AgentRun) { r.Status.Result.Text = "false" }),
			said{exitError, "", "is not the one that the run ended with"},
		},
		"the rest of a long one is in Postgres": {
			aRun("r", completed("beginning"), func(r *v1alpha1.AgentRun) { r.Status.Result.Completeness = v1alpha1.Truncated }),
			said{exitError, "", "shows only the beginning of the result (9 bytes): the Secret ekiden-postgres"},
		},
		"a run that goes on has none yet": {
			aRun("r"), said{exitUnfinished, "", "run r has not finished: Running: segment 0 is at work\nWait for it with --wait"},
		},
		"nor has one that nobody has looked at": {
			aRun("r", func(r *v1alpha1.AgentRun) { r.Status = v1alpha1.AgentRunStatus{} }),
			said{exitUnfinished, "", "no manager has looked at it yet"},
		},
		"of a failed one it is said why and what to do": {
			aRun("r", failedWith(v1alpha1.ReasonCredentialsRefused, "401 \x1b]0;from\a the endpoint")),
			said{exitFailed, "", "run r failed: CredentialsRefused: 401  the endpoint\nWhat to do: Correct the key in the Secret and start another run."},
		},
		"a duplicate names the other one": {
			aRun("r", failedWith(v1alpha1.ReasonDuplicate, "twice"), func(r *v1alpha1.AgentRun) { r.Status.DuplicateOf.Name = "first" }),
			said{exitFailed, "", "The other run: first"},
		},
		"a cancelled one has none": {
			aRun("r", stopped), said{exitCancelled, "", "run r was cancelled"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t.Context(), fakeCluster(t, interceptor.Funcs{}, tc.given), nil, "result", "r")
			if got.code != tc.want.code || got.out != tc.want.out || !strings.Contains(got.err, tc.want.err) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// onWatch lets something happen as soon as somebody watches.
func onWatch(do func(context.Context, client.WithWatch)) interceptor.Funcs {
	return interceptor.Funcs{Watch: watchThen(do)}
}

func TestResultWaits(t *testing.T) {
	t.Parallel()
	end := func(change func(*v1alpha1.AgentRun)) func(context.Context, client.WithWatch) {
		return func(ctx context.Context, c client.WithWatch) {
			r := &v1alpha1.AgentRun{}
			if c.Get(ctx, client.ObjectKey{Namespace: "team", Name: "r"}, r) == nil {
				change(r)
				_ = c.Status().Update(ctx, r)
			}
		}
	}
	for name, tc := range map[string]struct {
		happens func(context.Context, client.WithWatch)
		given   []string
		want    said
	}{
		"until there is one":       {end(completed("late")), nil, said{exitOK, "late", ""}},
		"until the run has failed": {end(failedWith(v1alpha1.ReasonModelRefused, "no")), nil, said{exitFailed, "", "ModelRefused"}},
		"not longer than it was told": {
			end(stand(metav1.ConditionUnknown, v1alpha1.ReasonBackingOff, "soon")),
			[]string{"--timeout", "300ms"},
			said{exitUnfinished, "", "has not finished within 300ms: BackingOff: soon"},
		},
		"not for a run that was deleted": {
			func(ctx context.Context, c client.WithWatch) { _ = c.Delete(ctx, aRun("r")) }, nil, said{exitError, "", "run r was deleted before it finished"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fakeCluster(t, onWatch(tc.happens), aRun("r"))
			got := run(t.Context(), c, nil, append([]string{"result", "r", "--wait"}, tc.given...)...)
			if got.code != tc.want.code || got.out != tc.want.out || !strings.Contains(got.err, tc.want.err) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestARunThatIsGoneBeforeTheFirstLook lets the run vanish between the watch and the read that follows it.
func TestARunThatIsGoneBeforeTheFirstLook(t *testing.T) {
	t.Parallel()
	c := fakeCluster(t, interceptor.Funcs{Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
		w, err := c.Watch(ctx, list, options...)
		return w, errors.Join(err, c.Delete(ctx, aRun("r")))
	}}, aRun("r"))
	got := run(t.Context(), c, nil, "result", "r", "--wait")
	if want := (said{exitError, "", "error: run r was deleted before it finished\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAnInterruptIsQuiet(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	got := run(ctx, fakeCluster(t, interceptor.Funcs{}, aRun("r")), nil, "result", "r", "--wait")
	if want := (said{exitInterrupted, "", ""}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
