package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
	"github.com/ekiden-dev/ekiden/test/serve"
)

// patience is how long a story waits for anything. It bounds a test that is broken; no outcome depends on it.
const patience = 3 * time.Minute

var stories atomic.Int64

// story is a namespace and a model of its own.
type story struct {
	*testing.T
	namespace string
	model     *modelserver.Server
}

// tell begins a story with a scripted model. The objects are applied in order.
func tell(t *testing.T, steps ...modelserver.Step) *story {
	t.Helper()
	s := &story{T: t, namespace: fmt.Sprintf("story-%d", stories.Add(1))}
	s.model = modelserver.New(modelserver.One(steps...), nil)
	server := serve.Start(t, s.model)
	s.model.URL = server.URL + "/v1"
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	t.Cleanup(func() {
		s.model.Stop()
		server.CloseClientConnections()
		server.Close()
		if t.Failed() {
			s.explain()
		}
		_ = api.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
		for _, e := range s.model.Report().Log {
			if e.Violation != "" {
				t.Errorf("request %d of %q broke the protocol: %s", e.N, e.Key, e.Violation)
			}
		}
	})
	return s
}

// setUp applies what a run needs: key, endpoint, definition.
func (s *story) setUp(change ...func(*v1alpha1.AgentDefinition)) *story {
	s.Helper()
	s.create(s.key(), given.Endpoint(s.namespace, s.model.URL), given.Definition(s.namespace, change...))
	return s
}

func (s *story) key() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "llm", Namespace: s.namespace}, StringData: map[string]string{"apiKey": canary}}
}

// canary is the model's key. It may be seen in one place only: the header of a request to the model.
const canary = "sk-canary-8c1f0d"

func (s *story) create(objects ...client.Object) {
	s.Helper()
	for _, o := range objects {
		reaching(o)
		if err := api.Create(s.Context(), o); err != nil {
			s.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

// reaching has a model endpoint or a tool server that may reach the loopback reach the servers of the stories, wherever they
// listen.
func reaching(o client.Object) {
	var e *v1alpha1.Egress
	switch o := o.(type) {
	case *v1alpha1.ModelEndpoint:
		e = &o.Spec.Egress
	case *v1alpha1.ToolServer:
		e = &o.Spec.Egress
	default:
		return
	}
	if slices.Equal(e.Allow, []string{"127.0.0.0/8"}) {
		e.Allow = []string{reachable()}
	}
}

// reachable is the network in which the servers of the stories are.
func reachable() string {
	if onKubelet() {
		return serve.Host + "/32"
	}
	return "127.0.0.0/8"
}

// start creates a run.
func (s *story) start(name string, change ...func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	s.Helper()
	r := given.Run(name, s.namespace, change...)
	s.create(r)
	return r
}

func (s *story) get(name string) *v1alpha1.AgentRun {
	s.Helper()
	var r v1alpha1.AgentRun
	s.eventually("the API answers", func() bool {
		return api.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &r) == nil
	})
	return &r
}

// until waits until the run is as wanted.
func (s *story) until(name, what string, holds func(*v1alpha1.AgentRun) bool) *v1alpha1.AgentRun {
	s.Helper()
	var r *v1alpha1.AgentRun
	s.eventually(name+" "+what, func() bool {
		r = s.get(name)
		return holds(r)
	})
	return r
}

// finished waits for the run's end and checks what holds at any end.
func (s *story) finished(name string) *v1alpha1.AgentRun {
	s.Helper()
	r := s.until(name, "finishes", func(r *v1alpha1.AgentRun) bool {
		return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionFinished)
	})
	if r.Status.FinishedAt.IsZero() || r.Status.ObservedGeneration != r.Generation {
		s.Errorf("a finished run without an instant or of another generation: %+v", r.Status)
	}
	if size := statusBytes(s.T, r); size > 8<<10 {
		s.Errorf("the status has %d bytes, more than 8 KiB", size)
	}
	return r
}

// want checks how a run ended.
func (s *story) want(r *v1alpha1.AgentRun, phase v1alpha1.RunPhase, reason string) {
	s.Helper()
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionSucceeded)
	if r.Status.Phase != phase || c.Reason != reason {
		s.Fatalf("%s: phase %s, reason %s (%s), want %s, %s", r.Name, r.Status.Phase, c.Reason, c.Message, phase, reason)
	}
	if wantStatus := map[v1alpha1.RunPhase]metav1.ConditionStatus{v1alpha1.RunSucceeded: metav1.ConditionTrue}[phase]; wantStatus != "" && c.Status != wantStatus {
		s.Errorf("condition Succeeded is %s", c.Status)
	}
	if phase == v1alpha1.RunFailed && r.Status.Error.Code != reason {
		s.Errorf("error %+v, want code %s", r.Status.Error, reason)
	}
}

// requests waits until the model has seen so many requests.
func (s *story) requests(n int) {
	s.Helper()
	s.eventually(fmt.Sprintf("%d requests", n), func() bool { return s.model.Report().Total >= n })
}

// wantRequests checks how many requests the model has seen.
func (s *story) wantRequests(n int) {
	s.Helper()
	if got := s.model.Report().Total; got != n {
		s.Errorf("the model saw %d requests, want %d", got, n)
	}
}

// told waits for an event with the reason.
func (s *story) told(name, reason string) {
	s.Helper()
	s.eventually("an event tells of "+reason, func() bool {
		var events corev1.EventList
		if err := api.List(s.Context(), &events, client.InNamespace(s.namespace)); err != nil {
			return false
		}
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.InvolvedObject.Name == name && e.Reason == reason })
	})
}

func (s *story) jobs() []batchv1.Job {
	s.Helper()
	var l batchv1.JobList
	if err := api.List(s.Context(), &l, client.InNamespace(s.namespace)); err != nil {
		s.Fatal(err)
	}
	return l.Items
}

func (s *story) pods() []corev1.Pod {
	s.Helper()
	var l corev1.PodList
	if err := api.List(s.Context(), &l, client.InNamespace(s.namespace)); err != nil {
		s.Fatal(err)
	}
	return l.Items
}

func (s *story) eventually(what string, holds func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for !holds() {
		select {
		case <-ctx.Done():
			s.Fatalf("never: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// explain prints what a person would look at.
func (s *story) explain() {
	for _, args := range [][]string{
		{"-n", s.namespace, "get", "arun,adef,drev,mep,job,pod", "-o", "wide"},
		{"-n", s.namespace, "describe", "arun"},
		{"-n", s.namespace, "get", "events", "--sort-by=.metadata.creationTimestamp"},
		{"-n", s.namespace, "logs", "-l", "app.kubernetes.io/name=ekiden-segment", "--tail=20", "--prefix"},
	} {
		out, err := shared.Kubectl(context.Background(), args...)
		s.Logf("kubectl %s\n%s%v", strings.Join(args, " "), out, err)
	}
}

// processes are the pids of a program's processes whose command line has the word. The word shared.Dir stands for all that
// belong to the cluster: its folder is in the command lines of a process node's pods, and its control group is that of a
// kubelet's.
func processes(t *testing.T, program, word string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	d, err := shared.Describe()
	if err != nil {
		t.Fatal(err)
	}
	belongs := func(pid, line string) bool {
		if word != shared.Dir || d.Node.Cgroup == "" {
			return strings.Contains(line, word)
		}
		groups, _ := os.ReadFile(filepath.Join("/proc", pid, "cgroup")) // it may have ended by now
		return strings.Contains(string(groups), d.Node.Cgroup+"/")
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")) // it may have ended by now
		args := strings.Split(string(line), "\x00")
		if filepath.Base(args[0]) == program && belongs(e.Name(), string(line)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// halt stops a process, and reports whether there is one. The signal is on its way when it is sent: threads that run on another
// processor go on until it arrives.
func (s *story) halt(pid int) bool {
	s.Helper()
	if syscall.Kill(pid, syscall.SIGSTOP) != nil {
		return false
	}
	there := true
	s.eventually(fmt.Sprintf("process %d stands still", pid), func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if there = err == nil && len(threads) > 0; !there {
			return true
		}
		return !slices.ContainsFunc(threads, func(name string) bool {
			stat, err := os.ReadFile(name)
			_, state, _ := strings.Cut(string(stat), ") ") // the program's name, in brackets, is ours and has none
			return err == nil && !strings.HasPrefix(state, "T") && !strings.HasPrefix(state, "Z")
		})
	})
	return there
}

// kill ends processes at once. One that is gone already is as good as killed.
func kill(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
}
