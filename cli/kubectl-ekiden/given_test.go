package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// aRun is a run of namespace team that goes on.
func aRun(name string, changes ...func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	r := &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-of-" + name)},
		Status:     v1alpha1.AgentRunStatus{SnapshotDigest: contract.Digest(nil)},
	}
	stand(metav1.ConditionUnknown, v1alpha1.ReasonRunning, "segment 0 is at work")(r)
	for _, change := range changes {
		change(r)
	}
	return r
}

func stand(status metav1.ConditionStatus, reason, message string) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) {
		over := metav1.ConditionFalse
		if status != metav1.ConditionUnknown {
			over = metav1.ConditionTrue
		}
		r.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionSucceeded, Status: status, Reason: reason, Message: message},
			{Type: v1alpha1.ConditionFinished, Status: over, Reason: reason},
		}
	}
}

func completed(text string) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) {
		stand(metav1.ConditionTrue, v1alpha1.ReasonCompleted, "the agent gave its answer")(r)
		r.Status.Result = v1alpha1.RunResult{Text: text, Completeness: v1alpha1.Whole, Bytes: int64(len(text)), Digest: contract.Digest([]byte(text))}
	}
}

func failedWith(code, message string) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) {
		stand(metav1.ConditionFalse, code, message)(r)
		r.Status.Error = v1alpha1.RunError{Code: code, Message: message}
	}
}

func stopped(r *v1alpha1.AgentRun) {
	stand(metav1.ConditionFalse, v1alpha1.ReasonCancelled, "cancelled by spec.desiredState")(r)
}

func aSecret(dsn string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: contract.PostgresSecret}, Data: map[string][]byte{contract.PostgresKey: []byte(dsn)}}
}

// fakeCluster is a cluster that holds objects, and may be interfered with.
func fakeCluster(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *cluster {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.AgentRun{}).Build()
	return &cluster{WithWatch: interceptor.NewClient(c, funcs), Namespace: "team", Server: "https://api.example", Skew: func() time.Duration { return 0 }}
}

// said is what a command printed and how it exited.
type said struct {
	code     int
	out, err string
}

func run(ctx context.Context, c *cluster, environment map[string]string, arguments ...string) said {
	var out, complaints strings.Builder
	p := program{
		Out: &out, Err: &complaints, Getenv: func(k string) string { return environment[k] },
		connect: func(program, clusterFlags) (*cluster, error) {
			if c == nil {
				return nil, errors.New("no cluster is configured")
			}
			return c, nil
		},
	}
	code := execute(ctx, p, arguments)
	return said{code, out.String(), complaints.String()}
}
