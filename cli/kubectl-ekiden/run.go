package main

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// state says how far a run has come, by its conditions.
type state int

const (
	goingOn state = iota
	succeeded
	failed
	cancelled
)

func stateOf(run *v1alpha1.AgentRun) state {
	s := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionSucceeded)
	switch {
	case s == nil || !finished(run):
		return goingOn
	case s.Status == metav1.ConditionTrue:
		return succeeded
	case s.Reason == v1alpha1.ReasonCancelled:
		return cancelled
	default:
		return failed
	}
}

func finished(run *v1alpha1.AgentRun) bool {
	return meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionFinished)
}

// standing is how a run stands, in words.
func standing(run *v1alpha1.AgentRun) string {
	c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionSucceeded)
	switch {
	case c == nil:
		return "no manager has looked at it yet"
	case c.Message == "":
		return c.Reason
	default:
		return c.Reason + ": " + c.Message
	}
}

// errNoRun is returned for a name that no run has.
var errNoRun = errors.New("there is no run")

// run reads a run by its name. Errors: errNoRun.
func (c *cluster) run(ctx context.Context, name string) (*v1alpha1.AgentRun, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	run := &v1alpha1.AgentRun{}
	err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, run)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w %q in namespace %s: kubectl get agentruns --namespace %s lists those there are", errNoRun, name, c.Namespace, c.Namespace)
	}
	return run, c.explain("reading run "+name, err)
}
