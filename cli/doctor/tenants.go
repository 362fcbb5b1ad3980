package doctor

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

func definitions(f Facts) []Finding {
	what := "definitions of " + f.everywhere()
	if f.Definitions.Err != nil {
		return []Finding{unseen(what, f.Definitions.Err)}
	}
	var out []Finding
	for _, d := range f.Definitions.Value {
		out = append(out, definition(d, f.Now)...)
	}
	if len(out) == 0 {
		out = append(out, ok(what, "%d, all of them ready", len(f.Definitions.Value)))
	}
	return out
}

// settleWithin is how long the manager may take to look at a new object.
const settleWithin = time.Minute

func definition(d v1alpha1.AgentDefinition, now time.Time) []Finding {
	what := named("definition", d.Namespace, d.Name)
	ready := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil && now.Sub(d.CreationTimestamp.Time) < settleWithin:
		return nil
	case ready == nil:
		return []Finding{{Level: Fail, What: what, Says: "no manager has looked at it", Cure: "see to the manager"}}
	case ready.Status != metav1.ConditionTrue && d.Status.CurrentRevision == "":
		return []Finding{{Level: Fail, What: what, Says: "is not ready, and runs of it cannot start: " + ready.Reason + ": " + ready.Message, Cure: cureDefinition(ready.Reason)}}
	case ready.Status != metav1.ConditionTrue:
		return []Finding{{Level: Warn, What: what, Says: fmt.Sprintf("its newest edit is not ready, and runs use %s: %s: %s", d.Status.CurrentRevision, ready.Reason, ready.Message), Cure: cureDefinition(ready.Reason)}}
	case ready.ObservedGeneration < d.Generation:
		return []Finding{{Level: Warn, What: what, Says: "its newest edit has not been looked at yet", Cure: "ask again; if this stays, see to the manager"}}
	default:
		return nil
	}
}

func cureDefinition(reason string) string {
	if reason == v1alpha1.ReasonModelEndpointNotFound {
		return "apply the ModelEndpoint that spec.modelRef names"
	}
	return "correct the field that the message names"
}

func (f Facts) endpointHolders() []holder {
	out := make([]holder, 0, len(f.Endpoints.Value))
	for _, e := range f.Endpoints.Value {
		out = append(out, holder{e.Namespace, e.Name, e.Spec.Credentials.SecretRef})
	}
	return out
}

func endpoints(f Facts) []Finding {
	if f.Endpoints.Err != nil {
		return []Finding{unseen("model endpoints of "+f.everywhere(), f.Endpoints.Err)}
	}
	return f.credentials("model endpoint", "the provider's key", f.endpointHolders())
}

func over(r v1alpha1.AgentRun) bool {
	return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionFinished)
}

// quiet is how long the status of a run may stay as it is with a reason, before that is strange. The manager writes it
// whenever it changes, and while a segment works, the active time does.
var quiet = map[string]struct {
	bound time.Duration
	level Level
	cure  string
}{
	v1alpha1.ReasonDefinitionNotReady: {3 * time.Minute, Fail, "the manager ends such a run after two minutes: see to the manager"},
	v1alpha1.ReasonInputNotReady:      {3 * time.Minute, Fail, "the manager ends such a run after two minutes: see to the manager"},
	v1alpha1.ReasonStarting:           {5 * time.Minute, Fail, "look for missing images, quotas, node capacity and Pod Security"},
	v1alpha1.ReasonRunning:            {10 * time.Minute, Fail, "see to the manager, and to the node of the run's pod"},
	v1alpha1.ReasonBackingOff:         {15 * time.Minute, Warn, "the message says what it waits for: a provider may have asked for a long pause"},
	v1alpha1.ReasonCancelling:         {3 * time.Minute, Fail, "the manager gives a pod one minute to stop: see to the manager"},
}

// grace is how much older than its limits of time a run may be: pauses and starts of pods are not active time.
const grace = 15 * time.Minute

// troubles says what is wrong with a run that has not finished, and that has asked people this.
func troubles(r v1alpha1.AgentRun, asked Seen[[]v1alpha1.ApprovalRequest], now time.Time) []Finding {
	var out []Finding
	what := named("run", r.Namespace, r.Name)
	condition := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionSucceeded)
	if condition == nil {
		if age := now.Sub(r.CreationTimestamp.Time); age > settleWithin {
			out = append(out, Finding{Level: Fail, What: what, Says: "no manager has looked at it for " + ago(age), Cure: "see to the manager"})
		}
		return out
	}
	if waits(r) {
		return unasked(r, *condition, asked, now)
	}
	q, known := quiet[condition.Reason]
	if still := now.Sub(changed(r)); known && still > q.bound {
		out = append(out, Finding{Level: q.level, What: what, Says: fmt.Sprintf("%s for %s: %s", condition.Reason, ago(still), condition.Message), Cure: q.cure})
	}
	// A run that has waited for people may be as old as it likes, and nobody keeps how long it did.
	if asked.Err != nil || len(asked.Value) > 0 {
		return out
	}
	active := time.Duration(r.Status.Limits.ActiveSeconds) * time.Second
	if age := now.Sub(r.Status.StartedAt.Time); !r.Status.StartedAt.IsZero() && active > 0 && age > active+grace {
		out = append(out, Finding{Level: Warn, What: what, Says: fmt.Sprintf("started %s ago, although limits.activeSeconds is %d; it is %s", ago(age), r.Status.Limits.ActiveSeconds, condition.Reason), Cure: "see what holds it up, or cancel it: kubectl ekiden cancel " + r.Name + " -n " + r.Namespace})
	}
	return out
}

// changed is when the status last changed. The condition's own time does not tell: it stays while only the reason changes.
func changed(r v1alpha1.AgentRun) time.Time {
	at := r.CreationTimestamp.Time
	for _, m := range r.ManagedFields {
		if m.Subresource == "status" && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}

func runs(f Facts) []Finding {
	what := "runs of " + f.everywhere()
	if f.Runs.Err != nil {
		return []Finding{unseen(what, f.Runs.Err)}
	}
	var out []Finding
	asked, waiting := f.asked(), 0
	for _, r := range f.Runs.Value {
		if waits(r) {
			waiting++
		}
		found := troubles(r, asked(r), f.Now)
		for i := range found {
			found[i].Says += event(f.Events[r.UID], f.Now)
		}
		out = append(out, found...)
	}
	if len(out) == 0 {
		says := fmt.Sprintf("%d go on, none of them is stuck", len(f.Runs.Value))
		if waiting > 0 {
			says += fmt.Sprintf("; %d wait for people", waiting)
		}
		out = append(out, ok(what, "%s", says))
	}
	return out
}

func event(e Seen[*corev1.Event], now time.Time) string {
	switch {
	case apierrors.IsForbidden(e.Err):
		return " (you may not read its events)"
	case e.Err != nil:
		return " (its events cannot be read: " + e.Err.Error() + ")"
	case e.Value == nil:
		return " (no event is kept)"
	default:
		return fmt.Sprintf(" (last event, %s ago: %s: %s)", ago(now.Sub(told(*e.Value))), e.Value.Reason, e.Value.Message)
	}
}

func pods(f Facts) []Finding {
	what := "segment pods of " + f.everywhere()
	if f.Pods.Err != nil {
		return []Finding{unseen(what, f.Pods.Err)}
	}
	going := map[string]bool{}
	for _, r := range f.Runs.Value {
		going[string(r.UID)] = true
	}
	var out []Finding
	running := 0
	for _, p := range f.Pods.Value {
		if p.Status.Phase == corev1.PodRunning {
			running++
		}
		out = append(out, pod(p, going[p.Labels[v1alpha1.LabelRunUID]], f.Now)...)
	}
	if len(out) == 0 {
		out = append(out, ok(what, "%d run, %d have ended or are about to start", running, len(f.Pods.Value)-running))
	}
	return out
}

// startWithin is how long the manager gives a pod to start.
const startWithin = 5 * time.Minute

// pod says what is wrong with a segment's pod. One that failed matters while its run goes on.
func pod(p corev1.Pod, wanted bool, now time.Time) []Finding {
	what := named("pod", p.Namespace, p.Name)
	age := now.Sub(p.CreationTimestamp.Time)
	logs := fmt.Sprintf("kubectl -n %s describe pod %s", p.Namespace, p.Name)
	switch {
	case p.DeletionTimestamp != nil && now.Sub(p.DeletionTimestamp.Time) > settleWithin:
		return []Finding{{Level: Warn, What: what, Says: "should have gone " + ago(now.Sub(p.DeletionTimestamp.Time)) + " ago", Cure: "see to its node " + p.Spec.NodeName}}
	case p.Status.Phase == corev1.PodPending && age > settleWithin:
		level := Warn
		if age > startWithin {
			level = Fail
		}
		why := waiting(p)
		if why == "" {
			why = "it does not say why"
		}
		return []Finding{{Level: level, What: what, Says: fmt.Sprintf("has been pending for %s: %s", ago(age), why), Cure: logs}}
	case p.Status.Phase == corev1.PodUnknown:
		return []Finding{{Level: Warn, What: what, Says: "its node does not answer", Cure: "see to the node " + p.Spec.NodeName}}
	case p.Status.Phase == corev1.PodFailed && wanted:
		return []Finding{{Level: Warn, What: what, Says: "failed: " + failure(p), Cure: "the manager tries again by itself; if it goes on failing: kubectl -n " + p.Namespace + " logs " + p.Name}}
	default:
		return nil
	}
}

// failure is how a pod failed.
func failure(p corev1.Pod) string {
	for _, s := range p.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
			says := fmt.Sprintf("exit code %d", t.ExitCode)
			for _, more := range []string{t.Reason, t.Message} {
				if more != "" {
					says += ", " + more
				}
			}
			return says
		}
	}
	return p.Status.Reason + " " + p.Status.Message
}
