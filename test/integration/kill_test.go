package integration

import (
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
)

// segmentOf waits for the process that works on a run.
func (s *story) segmentOf(r *v1alpha1.AgentRun) int {
	s.Helper()
	var pids []int
	s.eventually("a process works on "+r.Name, func() bool {
		pids = processes(s.T, "segment", "--run="+string(r.UID))
		return len(pids) > 0
	})
	return pids[0]
}

func managers(t *testing.T) []int {
	t.Helper()
	return processes(t, "manager", shared.Dir)
}

// part of the cluster that is shared by name: its pid.
func pidOf(t *testing.T, component string) int {
	t.Helper()
	d, err := shared.Describe()
	if err != nil {
		t.Fatal(err)
	}
	return d.Pids[component]
}

// The stories that kill what all share are not parallel: they come before those that are.

func TestAManagerKilledBetweenJobAndStatusStartsNoSecondOne(t *testing.T) {
	s := tell(t, gated("go", answer("x"))).setUp()
	r := s.start("orphan")
	s.eventually("the Job is created", func() bool { return len(s.jobs()) > 0 })
	kill(t, managers(t)...)
	s.segmentOf(r)
	s.model.Open("go")
	s.want(s.finished("orphan"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	s.wantRequests(1)
	if n := len(s.jobs()); n != 1 {
		t.Errorf("%d Jobs", n)
	}
}

func TestAManagerThatIsKilledAgainAndAgainLosesNothing(t *testing.T) {
	s := tell(t, slow(part("one ")), slow(part("two ")), answer("three")).setUp(given.Slices())
	for _, name := range []string{"a", "b", "c"} {
		s.start(name, given.Task(name))
	}
	for range 4 {
		kill(t, managers(t)...)
		time.Sleep(700 * time.Millisecond) //nolint:forbidigo // It spreads the kills; nothing depends on how.
	}
	for _, name := range []string{"a", "b", "c"} {
		r := s.finished(name)
		s.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
		if r.Status.Result.Text != "one two three" {
			t.Errorf("%s: %q", name, r.Status.Result.Text)
		}
	}
	s.wantRequests(9)
	if n := len(s.jobs()); n != 9 {
		t.Errorf("%d Jobs", n)
	}
}

// TestTheClusterLosesAPart kills each part in turn while a model call is under way, and lets the call end after the kill.
func TestTheClusterLosesAPart(t *testing.T) {
	for _, part := range []string{"postgres", "kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler"} {
		t.Run(part, func(t *testing.T) {
			s := tell(t, gated("go", answer("x"))).setUp()
			s.start("survivor")
			s.requests(1)
			pid := pidOf(t, part)
			kill(t, pid)
			s.eventually(part+" is started again", func() bool { return pidOf(t, part) != pid })
			s.model.Open("go")
			s.want(s.finished("survivor"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
			s.wantRequests(1)
		})
	}
}

func TestANodeThatDiesTakesItsPodAndNotTheRun(t *testing.T) {
	s := tell(t, gated("go", answer("lost")), answer("x")).setUp()
	s.start("moved")
	s.requests(1)
	kill(t, pidOf(t, "node"))
	s.want(s.finished("moved"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	s.wantRequests(2)
	s.eventually("the manager is back", func() bool { return len(managers(t)) == 2 })
}

func TestAPodKilledInATurnCostsOneModelCall(t *testing.T) {
	t.Parallel()
	s := tell(t, part("one "), gated("never", part("two ")), answer("two")).setUp()
	r := s.start("killed")
	s.requests(2)
	kill(t, s.segmentOf(r))
	got := s.finished("killed")
	s.want(got, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	s.wantRequests(3)
	if got.Status.Result.Text != "one two" || got.Status.Usage.Turns != 2 {
		t.Errorf("%+v", got.Status)
	}
}

func TestASegmentThatKeepsCrashingIsPoison(t *testing.T) {
	t.Parallel()
	s := tell(t, modelserver.Step{Silent: true}).setUp(given.Tries(2))
	r := s.start("poison")
	for n := 1; n <= 2; n++ {
		s.requests(n)
		kill(t, s.segmentOf(r))
	}
	got := s.finished("poison")
	s.want(got, v1alpha1.RunFailed, v1alpha1.ReasonPoisonSegment)
	s.wantRequests(2)
	if !strings.Contains(got.Status.Error.Message, "exit code 137") {
		t.Errorf("the message does not say how it crashed: %s", got.Status.Error.Message)
	}
}

func TestADeletedPodIsReplaced(t *testing.T) {
	t.Parallel()
	s := tell(t, slow(slow(part("one "))), answer("two")).setUp()
	s.start("deleted")
	s.requests(1)
	for _, p := range s.pods() {
		if err := api.Delete(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
	}
	got := s.finished("deleted")
	s.want(got, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	if got.Status.Result.Text != "one two" {
		t.Errorf("%q", got.Status.Result.Text)
	}
	s.wantRequests(2) // told to stop, the pod finished the turn it was in
}

func TestAJobThatIsDeletedByHandIsReplaced(t *testing.T) {
	t.Parallel()
	s := tell(t, gated("go", answer("x"))).setUp()
	s.start("jobless")
	s.requests(1)
	for _, j := range s.jobs() {
		if err := api.Delete(t.Context(), &j, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatal(err)
		}
	}
	s.model.Open("go")
	s.want(s.finished("jobless"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
}

func TestOfTwoPodsOfOneJobOneWorks(t *testing.T) {
	t.Parallel()
	s := tell(t, gated("go", answer("x"))).setUp()
	r := s.start("twins")
	s.requests(1)
	first := s.pods()[0]
	twin := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "twin", Namespace: s.namespace, Labels: first.Labels, Annotations: first.Annotations, OwnerReferences: first.OwnerReferences},
		Spec:       first.Spec,
	}
	twin.Spec.NodeName = ""
	delete(twin.Labels, "batch.kubernetes.io/controller-uid")
	delete(twin.Labels, "controller-uid")
	twin.OwnerReferences = nil // not the Job's, which would remove it at once
	s.create(twin)
	s.eventually("both run", func() bool { return len(processes(t, "segment", "--run="+string(r.UID))) == 2 })
	s.model.Open("go")
	s.want(s.finished("twins"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	s.eventually("the twin leaves in peace", func() bool {
		var p corev1.Pod
		return api.Get(t.Context(), client.ObjectKeyFromObject(twin), &p) == nil && p.Status.Phase == corev1.PodSucceeded
	})
	s.wantRequests(1)
}

// TestAZombieWritesNothing stops a process for longer than its lease, lets another one take over, and wakes it up.
func TestAZombieWritesNothing(t *testing.T) {
	t.Parallel()
	s := tell(t, gated("first", answer("of the dead")), answer("of the living")).setUp()
	r := s.start("zombie")
	s.requests(1)
	pid := s.segmentOf(r)
	if !s.halt(pid) {
		t.Fatal("it is gone")
	}
	got := s.finished("zombie")
	_ = syscall.Kill(pid, syscall.SIGCONT) // it may have been killed with its pod by now
	s.model.Open("first")
	s.want(got, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	if got.Status.Result.Text != "of the living" {
		t.Errorf("%q", got.Status.Result.Text)
	}
	s.eventually("the zombie is gone", func() bool { return len(processes(t, "segment", "--run="+string(r.UID))) == 0 })
	if after := s.get("zombie"); after.Status.Result.Text != "of the living" || after.ResourceVersion != got.ResourceVersion {
		t.Errorf("a run that has ended changed: %+v", after.Status)
	}
}

func TestASecretDeletedInARunIsMadeAnew(t *testing.T) {
	t.Parallel()
	s := tell(t, slow(part("one ")), answer("two")).setUp(given.Slices())
	s.start("robbed")
	s.requests(1)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: contract.PostgresSecret, Namespace: s.namespace}}
	if err := api.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	got := s.finished("robbed")
	s.want(got, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	if got.Status.Result.Text != "one two" {
		t.Errorf("%q", got.Status.Result.Text)
	}
	s.wantRequests(2)
}

func TestADeletedNamespaceLeavesNoLogin(t *testing.T) {
	t.Parallel()
	s := tell(t, modelserver.Step{Silent: true}).setUp()
	r := s.start("doomed")
	s.requests(1)
	var ns corev1.Namespace
	if err := api.Get(t.Context(), client.ObjectKey{Name: s.namespace}, &ns); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), &ns); err != nil {
		t.Fatal(err)
	}
	s.eventually("the namespace is gone", func() bool {
		err := api.Get(t.Context(), client.ObjectKey{Name: s.namespace}, &corev1.Namespace{})
		return err != nil && client.IgnoreNotFound(err) == nil
	})
	s.eventually("no process is left", func() bool { return len(processes(t, "segment", "--run="+string(r.UID))) == 0 })
	conn := superuser(t)
	s.eventually("its login is gone and its runs have ended", func() bool {
		var logins, open int
		err := conn.QueryRow(t.Context(), `SELECT
			(SELECT count(*) FROM ekiden.tenants WHERE namespace_uid = $1::uuid),
			(SELECT count(*) FROM ekiden.runs WHERE namespace_uid = $1::uuid AND ended_at IS NULL)`, string(ns.UID)).Scan(&logins, &open)
		if err != nil {
			t.Fatal(err)
		}
		return logins == 0 && open == 0
	})
}
