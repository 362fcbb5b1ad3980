package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

const (
	// approver is somebody of the group to which examples/ give the pool finance. They hold no other right.
	approver, approvers = "fran", "finance"
	// yes is a decision.
	yes = `{"spec":{"decision":{"verdict":"Approved"}}}`
	// mostRequests is how many requests of one run the demo approves.
	mostRequests = 5
)

// refund is the second story: a call that waits for people.
//
//	read ──► refund? ──► Waiting, no pod ──► the requester may not ──► an approver says yes ──► refund ──► answer
func (d *demo) refund(ctx context.Context) error {
	d.screen.Plain("The second agent may look up customers, and pay back up to 50 by itself. This customer wants 120.")
	if err := d.show(ctx, "apply", "-n", namespace, "-f", refundFile); err != nil {
		return err
	}
	f, err := d.following(ctx, theRefund, nil)
	if err != nil {
		return err
	}
	var approved []string
	for {
		if err := f.until(ctx, func(run *v1alpha1.AgentRun) bool { return finished(run) || len(open(run, approved)) > 0 }); err != nil {
			return err
		}
		if finished(f.run) {
			return d.judgeRefund(ctx, f.run, approved)
		}
		for _, request := range open(f.run, approved) {
			if len(approved) == mostRequests {
				return fmt.Errorf("run %s asks for a decision again and again", f.run.Name)
			}
			if len(approved) == 0 {
				err = d.introduce(ctx, f.run, request)
			}
			if err == nil {
				err = d.approve(ctx, request)
			}
			if err != nil {
				return err
			}
			approved = append(approved, request)
		}
	}
}

// open are the requests that the run waits for, but for those that were approved already.
func open(run *v1alpha1.AgentRun, approved []string) []string {
	var names []string
	if run.Status.Phase == v1alpha1.RunWaiting {
		for _, w := range run.Status.WaitingOn {
			names = append(names, w.Names...)
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(approved, n) })
}

// introduce shows that the run holds no pod, what is asked, and that whoever started the run may not answer.
func (d *demo) introduce(ctx context.Context, run *v1alpha1.AgentRun, request string) error {
	if err := d.podless(ctx, run); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"get", "pods", "-n", namespace, "-l", ofRun(run), "--field-selector", "status.phase!=Succeeded"},
		{"get", "arun", run.Name, "-n", namespace},
		{"get", "areq", "-n", namespace},
		{"get", "areq", request, "-n", namespace, "-o", "jsonpath={.spec.call.arguments}"},
	} {
		if err := d.show(ctx, args...); err != nil {
			return err
		}
	}
	if err := d.expected(ctx, request); err != nil {
		return err
	}
	return d.refused(ctx, request)
}

// podless is an error unless all pods of the run have ended.
func (d *demo) podless(ctx context.Context, run *v1alpha1.AgentRun) error {
	if _, err := d.kubectl(ctx, "wait", "-n", namespace, "--for=jsonpath={.status.phase}=Succeeded", "pod", "-l", ofRun(run), "--timeout=30s"); err != nil {
		return fmt.Errorf("run %s waits and its pods do not end: %w", run.Name, err)
	}
	var pods corev1.PodList
	if err := d.api.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelRunUID: string(run.UID)}); err != nil {
		return err
	}
	for i := range pods.Items {
		if phase := pods.Items[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			return fmt.Errorf("run %s waits, and its pod %s is %s", run.Name, pods.Items[i].Name, phase)
		}
	}
	return nil
}

// expected holds the request against the script: people must see exactly what the model proposed, and nothing is paid yet.
func (d *demo) expected(ctx context.Context, request string) error {
	if d.model.scripted == nil {
		return nil
	}
	script, err := readScript(d.place)
	if err != nil {
		return err
	}
	var areq v1alpha1.ApprovalRequest
	if err := d.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: request}, &areq); err != nil {
		return err
	}
	counted, said, err := d.tools.counted(ctx)
	want := script.arguments("refund", "crm__refund")
	switch {
	case err != nil:
		return err
	case areq.Spec.Call.Arguments != want:
		return fmt.Errorf("request %s shows the arguments %s, and the model gave %s", request, areq.Spec.Call.Arguments, want)
	case counted.Effects != 0 || counted.Calls["get_customer"] != 1:
		return fmt.Errorf("the tool server has counted one read and no refund, it should, and says %s", said)
	}
	return nil
}

// refused has the requester try to decide, who is an administrator of the cluster.
func (d *demo) refused(ctx context.Context, request string) error {
	args := []string{"patch", "areq", request, "-n", namespace, "--type", "merge", "-p", yes}
	d.screen.Plain("Whoever started the run tries to say yes. They may do anything in this cluster, but not this:")
	out, err := d.kubectl(ctx, args...)
	switch {
	case err == nil:
		return fmt.Errorf("the one whom the run acts for could approve its call: %s", out)
	case !strings.Contains(out, "the run acts for you"):
		return err
	}
	d.screen.Quote(typed(args), out)
	return nil
}

// approve says yes as somebody who holds the rights of an approver and no others.
func (d *demo) approve(ctx context.Context, request string) error {
	d.screen.Plain(fmt.Sprintf("%s of %s looks at it, and says yes with the same command:", approver, approvers))
	return d.show(ctx, "patch", "areq", request, "-n", namespace, "--as", approver, "--as-group", approvers, "--type", "merge", "-p", yes)
}

// judgeRefund tells what came of the refund. What a real model did with its tools is told and not judged.
func (d *demo) judgeRefund(ctx context.Context, run *v1alpha1.AgentRun, approved []string) error {
	if err := d.cheer(run); err != nil {
		return err
	}
	counted, said, err := d.tools.counted(ctx)
	if err != nil {
		return err
	}
	d.screen.Say("tools", d.tools.url("/counts")+" says\n"+said)
	switch {
	case d.model.scripted == nil && len(approved) == 0:
		d.screen.Say("model", "it did not ask for a refund that needs an approval, so nobody had to decide")
	case d.model.scripted == nil:
	case len(approved) != 1:
		return fmt.Errorf("%d requests were approved, and the model proposed one refund", len(approved))
	case counted.Effects != 1 || counted.Calls["refund"] != 1 || counted.Calls["get_customer"] != 1:
		return errors.New("the tool server should have counted one read and one refund")
	default:
		d.screen.Say("proof", "one read, one refund, and the refund only after somebody said yes")
	}
	if len(approved) > 0 {
		if err := d.show(ctx, "get", "areq", "-n", namespace); err != nil {
			return err
		}
	}
	return d.show(ctx, "ekiden", "result", run.Name, "-n", namespace)
}
