package agentrun

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/request"
	"github.com/ekiden-dev/ekiden/controllers/metrics"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// record writes the status, once, and then tells people.
func (r *Reconciler) record(ctx context.Context, run *v1alpha1.AgentRun, o *observation, d lifecycle.Decision) error {
	rep := d.Report
	if rep == (lifecycle.Report{}) {
		return r.follow(ctx, run)
	}
	rep.Message = contract.Fit(rep.Message, contract.MaxMessage, contract.MaxMessage)
	before := run.DeepCopy()
	report(run, o, rep)
	for _, e := range d.Do {
		if s, ok := e.(lifecycle.Start); ok { // newer than what was observed
			run.Status.Segment, run.Status.Memory.Attempt = number(s.Segment), number(s.Attempt)
		}
	}
	if told(before.Status, run.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, run, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !o.NamespaceGoing { // no event can be created there any more
		r.tell(before, run, rep)
	}
	return nil
}

// follow says of an end that it stands, whatever was changed since: tools that compare generations would wait for that for ever.
func (r *Reconciler) follow(ctx context.Context, run *v1alpha1.AgentRun) error {
	s := &run.Status
	if !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionFinished) || !run.DeletionTimestamp.IsZero() || s.ObservedGeneration == run.Generation {
		return nil
	}
	before := run.DeepCopy()
	s.ObservedGeneration = run.Generation
	for i := range s.Conditions {
		s.Conditions[i].ObservedGeneration = run.Generation
	}
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, run, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// told reports whether the status says all of it already. What a run uses as it goes is not worth a write of its own: it
// comes with the next change.
func told(before, after v1alpha1.AgentRunStatus) bool {
	after.Usage, after.ActiveSeconds, after.Memory = before.Usage, before.ActiveSeconds, before.Memory
	return equality.Semantic.DeepEqual(before, after)
}

// report puts what is known into the status.
func report(run *v1alpha1.AgentRun, o *observation, rep lifecycle.Report) {
	s := &run.Status
	s.ObservedGeneration = run.Generation
	s.Phase = rep.Phase
	set := func(condition string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: condition, Status: status, Reason: reason, Message: message, ObservedGeneration: run.Generation})
	}
	switch {
	case o.Admission != nil:
		// What was said at the admission stands: the ledger does not keep it.
		if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionAccepted); c == nil || c.Status != metav1.ConditionTrue {
			set(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAdmitted, contract.Fit(o.unfit, contract.MaxMessage/2, contract.MaxMessage/2))
		}
	case rep.Ended:
		set(v1alpha1.ConditionAccepted, metav1.ConditionFalse, rep.Reason, rep.Message)
	default:
		set(v1alpha1.ConditionAccepted, metav1.ConditionUnknown, rep.Reason, rep.Message)
	}
	set(v1alpha1.ConditionSucceeded, succeeded(rep), rep.Reason, rep.Message)
	finished := metav1.ConditionFalse
	if rep.Ended {
		finished = metav1.ConditionTrue
	}
	set(v1alpha1.ConditionFinished, finished, rep.Reason, "")
	if o.Admission != nil && !o.Admission.CancelledAt.IsZero() {
		set(v1alpha1.ConditionCancelRequested, metav1.ConditionTrue, v1alpha1.ReasonCancelling, "nothing new begins")
	}
	admitted(s, run, o)
	s.WaitingOn = waitingOn(run, rep.Waiting)
	if rep.Ended {
		end(s, o, rep)
	}
}

// mostNames is how many requests are named in a status.
const mostNames = 8

// waitingOn says what the run waits for, or nothing.
func waitingOn(run *v1alpha1.AgentRun, w *lifecycle.Waiting) []v1alpha1.RunWait {
	if w == nil || len(w.Requests) == 0 {
		return nil
	}
	out := v1alpha1.RunWait{Kind: v1alpha1.WaitApproval, Count: int32(len(w.Requests)), Until: metav1.NewTime(w.Until)} //nolint:gosec // five seats for each call of an answer
	for _, k := range w.Requests[:min(len(w.Requests), mostNames)] {
		out.Names = append(out.Names, request.Name(run, k))
	}
	return []v1alpha1.RunWait{out}
}

func succeeded(rep lifecycle.Report) metav1.ConditionStatus {
	switch {
	case !rep.Ended:
		return metav1.ConditionUnknown
	case rep.Phase == v1alpha1.RunSucceeded:
		return metav1.ConditionTrue
	default:
		return metav1.ConditionFalse
	}
}

// admitted shows what the ledger knows.
func admitted(s *v1alpha1.AgentRunStatus, run *v1alpha1.AgentRun, o *observation) {
	s.Root = v1alpha1.RunReference{Name: run.Name, UID: run.UID}
	s.DuplicateOf = o.duplicate
	rec := o.record
	if rec == nil {
		return
	}
	s.Revision = rec.Terms.Revision
	s.SnapshotDigest = rec.SnapshotDigest
	s.Limits = rec.Terms.Limits
	s.StartedAt = metav1.NewTime(rec.AdmittedAt.Truncate(1e9))
	if n := len(rec.Attempts); n > 0 {
		s.Segment, s.Memory.Attempt = number(rec.Attempts[n-1].Segment), number(rec.Attempts[n-1].Attempt)
	}
	s.Memory.Entries, s.Memory.CallsBegun, s.Memory.CallsSettled, s.Memory.Decisions = rec.Entries, int64(rec.Usage.ToolCalls), rec.Settled, rec.Decisions
	s.ActiveSeconds = number(int(rec.Active.Seconds()))
	s.Usage = v1alpha1.RunUsage{
		Turns: rec.Usage.Turns, ToolCalls: rec.Usage.ToolCalls, InputTokens: rec.Usage.Input + rec.Usage.CacheRead, CachedInputTokens: rec.Usage.CacheRead,
		OutputTokens: rec.Usage.Output, Cost: rec.Usage.Cost.String(),
	}
}

// number is n in the form of the API. Limits keep what is counted there far below the bound.
func number(n int) *int32 {
	v := int32(min(n, math.MaxInt32)) //nolint:gosec // bounded in the same expression
	return &v
}

// end shows how the run ended.
func end(s *v1alpha1.AgentRunStatus, o *observation, rep lifecycle.Report) {
	at := rep.At
	if at.IsZero() {
		at = o.Now
	}
	s.FinishedAt = metav1.NewTime(at.Truncate(1e9))
	if rep.Phase == v1alpha1.RunFailed {
		s.Error = v1alpha1.RunError{Code: rep.Reason, Message: rep.Message}
	}
	if rep.Phase != v1alpha1.RunSucceeded || o.record == nil || o.record.Outcome == nil {
		return
	}
	out := o.record.Outcome
	s.Result = v1alpha1.RunResult{Completeness: v1alpha1.Truncated, Bytes: o.record.ResultBytes, Digest: o.record.ResultDigest}
	if out.Yield == contract.YieldCeiling {
		s.Result.PartialReason = v1alpha1.ReasonLimitReached
	}
	// The text takes what the rest leaves.
	s.Result.Text = contract.Fit(out.Result, contract.MaxInlineResult, maxStatus-contract.InJSON(s)-len(`"text":"",`))
	if int64(len(s.Result.Text)) >= o.record.ResultBytes {
		s.Result.Completeness = v1alpha1.Whole
	}
}

// maxStatus is the most bytes of a status as the API server stores it: in JSON, where one byte of text may take six.
const maxStatus = 8 << 10

// tell emits an event for a change of reason, and counts an end. The event's words are the condition's.
func (r *Reconciler) tell(before, run *v1alpha1.AgentRun, rep lifecycle.Report) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionSucceeded)
	if was != nil && was.Reason == rep.Reason && was.Message == rep.Message {
		return
	}
	kind := corev1.EventTypeNormal
	if rep.Phase == v1alpha1.RunFailed || rep.Reason == v1alpha1.ReasonBackingOff {
		kind = corev1.EventTypeWarning
	}
	r.Events.Eventf(run, nil, kind, rep.Reason, "Reconcile", "%s", rep.Message)
	if rep.Ended && !meta.IsStatusConditionTrue(before.Status.Conditions, v1alpha1.ConditionFinished) {
		metrics.RunEnded(run)
	}
}
