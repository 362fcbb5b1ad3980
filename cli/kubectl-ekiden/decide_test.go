package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

func aRequest(name string, changes ...func(*v1alpha1.ApprovalRequest)) *v1alpha1.ApprovalRequest {
	r := &v1alpha1.ApprovalRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-of-" + name)},
		Spec: v1alpha1.ApprovalRequestSpec{
			Type: v1alpha1.ApprovalCall, RunRef: v1alpha1.RunReference{Name: "triage", UID: "u"}, Requester: v1alpha1.Principal{User: "dana"},
			Pool: "finance", Seat: 1, Seats: 1, ExpiresAt: metav1.NewTime(time.Now().Add(90*time.Minute + 30*time.Second)),
			Call: v1alpha1.ApprovalRequestCall{Tool: "payments/refund", Effect: v1alpha1.EffectSend, Arguments: `{"amount":120}`, Digest: "sha256:abc"},
		},
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

func decided(v v1alpha1.Verdict, by string) func(*v1alpha1.ApprovalRequest) {
	return func(r *v1alpha1.ApprovalRequest) { r.Spec.Decision = v1alpha1.Decision{Verdict: v, By: by} }
}

// unsure asks what came of the call.
func unsure(r *v1alpha1.ApprovalRequest) { r.Spec.Type = v1alpha1.ApprovalIndeterminate }

func phase(ph v1alpha1.ApprovalPhase) func(*v1alpha1.ApprovalRequest) {
	return func(r *v1alpha1.ApprovalRequest) { r.Status.Phase = ph }
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		given     *v1alpha1.ApprovalRequest
		arguments []string
		want      said
		verdict   v1alpha1.Verdict
	}{
		"an approval says what was approved": {
			aRequest("r"),
			[]string{"approve", "r", "--reason", "known"},
			said{exitOK, "approvalrequest.ekiden.dev/r approved: payments/refund (Send) {\"amount\":120} for run triage\n", ""},
			v1alpha1.VerdictApproved,
		},
		"a denial says what was denied": {
			aRequest("r", func(r *v1alpha1.ApprovalRequest) { r.Spec.Call.Arguments = "" }),
			[]string{"deny", "r"},
			said{exitOK, "approvalrequest.ekiden.dev/r denied: payments/refund (Send) sha256:abc for run triage\n", ""},
			v1alpha1.VerdictDenied,
		},
		"what came of a call is said": {
			aRequest("r", unsure),
			[]string{"resolve", "r", "--happened", "--reason", "booked"},
			said{exitOK, "approvalrequest.ekiden.dev/r said to have taken effect: payments/refund (Send) {\"amount\":120} for run triage\n", ""},
			v1alpha1.VerdictHappened,
		},
		"so is that it did not happen": {
			aRequest("r", unsure),
			[]string{"resolve", "r", "--not-happened"},
			said{exitOK, "approvalrequest.ekiden.dev/r said not to have taken effect: payments/refund (Send) {\"amount\":120} for run triage\n", ""},
			v1alpha1.VerdictNotHappened,
		},
		"so is to try again": {
			aRequest("r", unsure),
			[]string{"resolve", "r", "--retry"},
			said{exitOK, "approvalrequest.ekiden.dev/r said to be made again: payments/refund (Send) {\"amount\":120} for run triage\n", ""},
			v1alpha1.VerdictRetry,
		},
		"whoever approves a call that was sent is told what to say": {
			aRequest("r", unsure),
			[]string{"approve", "r"},
			said{exitError, "", "error: approval request r asks what came of a call that was sent: kubectl ekiden resolve r --happened, --not-happened or --retry\n"},
			"",
		},
		"whoever says what came of a call that was not sent is told so": {
			aRequest("r"),
			[]string{"resolve", "r", "--retry"},
			said{exitError, "", "error: approval request r asks whether a call may run: kubectl ekiden approve r, or deny\n"},
			"",
		},
		"the same decision may be repeated": {
			aRequest("r", decided(v1alpha1.VerdictApproved, "alice")),
			[]string{"approve", "r"},
			said{exitOK, "approvalrequest.ekiden.dev/r was approved already, by alice\n", ""},
			v1alpha1.VerdictApproved,
		},
		"another decision is refused": {
			aRequest("r", decided(v1alpha1.VerdictDenied, "alice")),
			[]string{"approve", "r"},
			said{exitError, "", "error: approval request r was denied by alice: a decision is final\n"},
			v1alpha1.VerdictDenied,
		},
		"a request that is not open is not decided": {
			aRequest("r", phase(v1alpha1.ApprovalExpired)),
			[]string{"approve", "r"},
			said{exitError, "", "error: approval request r is no longer open: it is Expired\n"},
			"",
		},
		"a request that is not there is named": {
			aRequest("other"),
			[]string{"approve", "r"},
			said{exitError, "", "error: there is no approval request \"r\" in namespace team: kubectl ekiden approvals lists those there are\n"},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fakeCluster(t, interceptor.Funcs{}, tc.given)
			if got := run(t.Context(), c, nil, tc.arguments...); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			after := &v1alpha1.ApprovalRequest{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(tc.given), after); err != nil || after.Spec.Decision.Verdict != tc.verdict {
				t.Errorf("verdict %q, %v", after.Spec.Decision.Verdict, err)
			}
		})
	}
}

func TestResolveWantsOneWord(t *testing.T) {
	t.Parallel()
	for _, arguments := range [][]string{{"resolve", "r"}, {"resolve", "r", "--happened", "--retry"}} {
		c := fakeCluster(t, interceptor.Funcs{}, aRequest("r", unsure))
		if got := run(t.Context(), c, nil, arguments...); got.code != exitUsage || !strings.Contains(got.err, "say one of --happened, --not-happened and --retry") {
			t.Errorf("%v: %+v", arguments, got)
		}
	}
}

func TestDecideShowsWhatTheAPIServerSays(t *testing.T) {
	t.Parallel()
	refusal := apierrors.NewForbidden(schema.GroupResource{Group: "ekiden.dev", Resource: "approvalrequests"}, "r", errors.New("you are the one the run acts for"))
	c := fakeCluster(t, interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return refusal
	}}, aRequest("r"))
	got := run(t.Context(), c, nil, "approve", "r")
	if got.code != exitError || !strings.Contains(got.err, "you are the one the run acts for") || strings.Contains(got.err, "ekiden-viewer") {
		t.Errorf("got %+v", got)
	}
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	c := fakeCluster(t, interceptor.Funcs{},
		aRequest("b"),
		aRequest("a", func(r *v1alpha1.ApprovalRequest) { r.Spec.ExpiresAt = metav1.NewTime(time.Now().Add(-time.Second)) }),
		aRequest("gone", phase(v1alpha1.ApprovalWithdrawn)),
		aRequest("elsewhere", func(r *v1alpha1.ApprovalRequest) { r.Namespace = "other" }),
	)
	got := run(t.Context(), c, nil, "approvals")
	want := said{exitOK, `NAME   RUN      FOR    POOL      SEAT   PHASE     EXPIRES   TOOL              ARGUMENTS
a      triage   dana   finance   1/1    Pending   now       payments/refund   {"amount":120}
b      triage   dana   finance   1/1    Pending   in 90m    payments/refund   {"amount":120}
`, ""}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := run(t.Context(), c, nil, "approvals", "-A", "--all"); strings.Count(got.out, "\n") != 5 || !strings.Contains(got.out, "Withdrawn") {
		t.Errorf("got %+v", got)
	}
	if got := run(t.Context(), c, nil, "approvals", "--pool", "legal"); got != (said{exitOK, "", "No call waits for a decision in namespace team.\n"}) {
		t.Errorf("got %+v", got)
	}
}
