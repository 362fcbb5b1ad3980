package agentrun

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// prepare gathers what an unadmitted run would be frozen with, or what stands against it.
func (r *Reconciler) prepare(ctx context.Context, run *v1alpha1.AgentRun, o *observation) error {
	revision, err := r.revision(ctx, run, o)
	if err != nil || revision == nil {
		return err
	}
	if offered, err := r.offered(ctx, revision, o); err != nil || !offered {
		return err
	}
	tools, grant, err := r.tools(ctx, revision, o)
	if err != nil || o.Waiting != nil {
		return err
	}
	task, err := r.task(ctx, run, o)
	if err != nil || task == "" {
		return err
	}
	limits, err := r.limits(ctx, run, revision)
	if err != nil {
		return err
	}
	agent := revision.Spec.Agent
	agent.Limits = limits
	o.admission = ledger.Admission{
		IdempotencyKey: run.Spec.IdempotencyKey,
		Snapshot: contract.Snapshot{
			Run: contract.Identity{
				Namespace: run.Namespace, NamespaceUID: o.namespace.UID, Name: run.Name, UID: run.UID, RootUID: run.UID,
			},
			Revision:   revision.Name,
			Definition: revision.Spec.DefinitionRef.Name,
			Agent:      agent,
			Tools:      tools,
			Grant:      grant,
			Principal:  run.Spec.Principal,
			Task:       task,
		},
	}
	return nil
}

// revision is the revision the run will execute. Nil with no error means that o says what is waited for.
func (r *Reconciler) revision(ctx context.Context, run *v1alpha1.AgentRun, o *observation) (*v1alpha1.DefinitionRevision, error) {
	ref := run.Spec.DefinitionRef
	name := ref.Revision
	if name == "" {
		var def v1alpha1.AgentDefinition
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: ref.Name}, &def)
		switch ready := meta.FindStatusCondition(def.Status.Conditions, v1alpha1.ConditionReady); {
		case apierrors.IsNotFound(err):
			o.wait(v1alpha1.ReasonDefinitionNotReady, "spec.definitionRef: there is no %s %q in this namespace", ref.Kind, ref.Name)
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("definition %s: %w", ref.Name, err)
		case def.Status.ObservedGeneration != def.Generation: // whoever edits and then runs means the edit
			o.wait(v1alpha1.ReasonDefinitionNotReady, "%s %q has not been compiled yet", ref.Kind, ref.Name)
			return nil, nil
		case def.Status.CurrentRevision == "" && ready != nil:
			o.wait(v1alpha1.ReasonDefinitionNotReady, "%s %q does not compile: %s: %s", ref.Kind, ref.Name, ready.Reason, ready.Message)
			return nil, nil
		case ready != nil && ready.Status == metav1.ConditionFalse:
			o.unfit = fmt.Sprintf("the newest edit of %s %q does not compile (%s); its last good revision is used", ref.Kind, ref.Name, ready.Message)
		}
		name = def.Status.CurrentRevision
	}
	var revision v1alpha1.DefinitionRevision
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: name}, &revision)
	switch {
	case apierrors.IsNotFound(err):
		o.wait(v1alpha1.ReasonDefinitionNotReady, "spec.definitionRef: there is no DefinitionRevision %q in this namespace", name)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("revision %s: %w", name, err)
	case revision.Spec.DefinitionRef.Name != ref.Name || revision.Spec.DefinitionRef.Kind != ref.Kind:
		o.refuse("spec.definitionRef.revision: %q is a revision of %s %q, not of %q", name, revision.Spec.DefinitionRef.Kind, revision.Spec.DefinitionRef.Name, ref.Name)
		return nil, nil
	}
	return &revision, nil
}

// offered reports whether the platform still offers the endpoint with which the revision was compiled: a pinned or a last
// good revision is no way to keep one that was narrowed or taken back. False with no error means that o says what is waited for.
func (r *Reconciler) offered(ctx context.Context, revision *v1alpha1.DefinitionRevision, o *observation) (bool, error) {
	frozen := revision.Spec.Agent.Model
	var live v1alpha1.ModelEndpoint
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: revision.Namespace, Name: frozen.Name}, &live)
	was, is := frozen.Endpoint, live.Spec
	field := changed(reach{was.URL, was.Credentials, was.TLS, was.Proxy, was.Egress}, reach{is.URL, is.Credentials, is.TLS, is.Proxy, is.Egress})
	switch {
	case apierrors.IsNotFound(err):
		o.wait(v1alpha1.ReasonDefinitionNotReady, "revision %q needs ModelEndpoint %q, which is not in this namespace: apply it, or use a definition with another", revision.Name, frozen.Name)
	case err != nil:
		return false, fmt.Errorf("model endpoint %s: %w", frozen.Name, err)
	case field != "":
		o.wait(v1alpha1.ReasonDefinitionNotReady, "%s of ModelEndpoint %q is not what revision %q was compiled with: use a revision that was compiled since, or correct the definition if its newest edit does not compile", field, live.Name, revision.Name)
	default:
		return true, nil
	}
	return false, nil
}

// reach is what a segment reaches, with which key, trusting whom, through what, and past which ranges.
type reach struct {
	url         string
	credentials v1alpha1.Credentials
	tls         v1alpha1.TLS
	proxy       v1alpha1.Proxy
	egress      v1alpha1.Egress
}

// changed names the first field by which something is reached elsewhere or with another key than before, or none.
func changed(before, now reach) string {
	sorted := func(e v1alpha1.Egress) []string { return slices.Sorted(slices.Values(e.Allow)) }
	switch {
	case before.url != now.url:
		return "spec.url"
	case before.credentials != now.credentials:
		return "spec.credentials"
	case before.tls != now.tls:
		return "spec.tls"
	case before.proxy != now.proxy:
		return "spec.proxy"
	case !slices.Equal(sorted(before.egress), sorted(now.egress)):
		return "spec.egress"
	default:
		return ""
	}
}

// task is the input as the model sees it. Empty with no error means that o says what is waited for, or why it is refused.
func (r *Reconciler) task(ctx context.Context, run *v1alpha1.AgentRun, o *observation) (string, error) {
	in := run.Spec.Input
	switch {
	case in.From != nil:
		return r.taskFrom(ctx, run, in.From.ConfigMap, o)
	case in.JSON != nil:
		text, err := contract.Canonical(in.JSON.Raw)
		if err != nil {
			o.refuse("spec.input.json: %v", err)
			return "", nil
		}
		return o.bounded("spec.input.json", string(text), contract.MaxInlineInput), nil
	case in.Text == "": // refused by the schema; should one pass, nothing at all would be frozen, again and again
		o.refuse("spec.input is empty")
		return "", nil
	default:
		return o.bounded("spec.input.text", in.Text, contract.MaxInlineInput), nil
	}
}

func (r *Reconciler) taskFrom(ctx context.Context, run *v1alpha1.AgentRun, ref v1alpha1.KeyReference, o *observation) (string, error) {
	var cm corev1.ConfigMap
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: ref.Name}, &cm)
	text, ok := cm.Data[ref.Key]
	switch {
	case apierrors.IsNotFound(err):
		o.wait(v1alpha1.ReasonInputNotReady, "spec.input.from: there is no ConfigMap %q in this namespace", ref.Name)
		return "", nil
	case err != nil:
		return "", fmt.Errorf("input ConfigMap %s: %w", ref.Name, err)
	case !ok:
		o.wait(v1alpha1.ReasonInputNotReady, "spec.input.from: ConfigMap %q has no key %q", ref.Name, ref.Key)
		return "", nil
	case text == "":
		o.refuse("spec.input.from: key %q of ConfigMap %q is empty", ref.Key, ref.Name)
		return "", nil
	}
	return o.bounded("spec.input.from", text, contract.MaxInput), nil
}

// limits are the revision's, narrowed by the policies in force and by the run.
func (r *Reconciler) limits(ctx context.Context, run *v1alpha1.AgentRun, revision *v1alpha1.DefinitionRevision) (v1alpha1.Limits, error) {
	l := budget.Narrow(revision.Spec.Agent.Limits, run.Spec.Limits)
	for _, namespace := range []string{run.Namespace, r.Namespace} {
		var policy v1alpha1.AgentPolicy
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1alpha1.DefaultPolicyName}, &policy)
		if client.IgnoreNotFound(err) != nil {
			return l, fmt.Errorf("policy of %s: %w", namespace, err)
		}
		l = budget.Narrow(l, policy.Spec.Limits)
	}
	return l, nil
}

func (o *observation) wait(reason, format string, args ...any) {
	o.Waiting = &lifecycle.Cause{Reason: reason, Message: contract.Clip(fmt.Sprintf(format, args...), contract.MaxMessage)}
}

func (o *observation) refuse(format string, args ...any) {
	o.Refused = &lifecycle.End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonInputInvalid, Message: contract.Clip(fmt.Sprintf(format, args...), contract.MaxMessage), At: o.Now}
}

// bounded is text, or nothing if it is too long.
func (o *observation) bounded(field, text string, limit int) string {
	if len(text) > limit {
		o.refuse("%s has %d bytes, %d are allowed: larger inputs go through spec.input.from", field, len(text), limit)
		return ""
	}
	return contract.Clean(text)
}
