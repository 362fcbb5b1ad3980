package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/chaos/judge"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
)

// load keeps runs under way and writes down what becomes of them.
type load struct {
	*world
	options Options
	plans   []plan
	model   *modelserver.Server

	mu   sync.Mutex
	runs map[string]*judge.Run // by UID
	// keys says to which run an Idempotency-Key belongs.
	keys map[string]string
	// ended is told when a run ends.
	ended chan struct{}
}

func (w *world) load(ctx context.Context, o Options) (*load, error) {
	l := &load{world: w, options: o, plans: planned(o.Seed), runs: map[string]*judge.Run{}, keys: map[string]string{}, ended: make(chan struct{}, 1)}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l.model = modelserver.New(script(l.plans), nil)
	go func() { _ = (&http.Server{Handler: l.model, ReadHeaderTimeout: time.Minute}).Serve(listener) }()
	return l, l.furnish(ctx, "http://"+listener.Addr().String()+"/v1")
}

// furnish creates what runs need. A segment may crash often before its run is given up, and is tried again soon.
func (l *load) furnish(ctx context.Context, model string) error {
	var names []string
	var made []v1alpha1.HTTPTool
	declared := func(*v1alpha1.ToolServer) {}
	for _, t := range tools {
		h := given.HTTPTool(t.name, t.method, "/"+t.name)
		h.Input.Schema.Raw = []byte(`{"type":"object","properties":{"n":{"type":"string"},"ms":{"type":"string"}},"required":["n","ms"],"additionalProperties":false}`)
		if t.method == "GET" {
			h.Query = []string{"n", "ms"}
		}
		names, made = append(names, t.name), append(made, h)
		before := declared
		declared = func(s *v1alpha1.ToolServer) {
			before(s)
			given.DeclaredTool(v1alpha1.ToolDeclaration{Name: t.name, Effect: t.effect, Idempotency: t.idempotency, TimeoutSeconds: 60})(s)
		}
	}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Secret{ObjectMeta: meta("llm"), StringData: map[string]string{"apiKey": "sk-chaos"}},
		given.Endpoint(namespace, model), given.HTTPServer(namespace, l.url+"/book", made, declared),
		given.Policy(namespace, given.Asks("ask", given.Pool, 1, given.Tools+"/"+asks), given.Allows("all")),
		given.Definition(namespace, given.Uses(given.Tools, names...), given.Tries(20), func(d *v1alpha1.AgentDefinition) {
			d.Spec.Retry.BaseSeconds, d.Spec.Retry.CapSeconds = 1, 1
			d.Spec.Segment = v1alpha1.SegmentTimers{SoftSeconds: 3, HardSeconds: 60}
			d.Spec.Limits = v1alpha1.Limits{Segments: 100}
		}),
	}
	if err := l.create(ctx, append(objects, approvers()...)...); err != nil {
		return err
	}
	return eventually(ctx, "the definition is ready", func() error {
		var d v1alpha1.AgentDefinition
		if err := l.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: given.Agent}, &d); err != nil {
			return err
		}
		if c := apimeta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("it is not: %+v", c)
		}
		return nil
	})
}

func approvers() []client.Object {
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: approver}}
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	return []client.Object{
		&rbacv1.Role{ObjectMeta: meta("approve"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"approverpools"}, Verbs: []string{"approve"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta("approve"), Subjects: subjects, RoleRef: ref("Role", "approve")},
		&rbacv1.RoleBinding{ObjectMeta: meta("approver"), Subjects: subjects, RoleRef: ref("ClusterRole", "ekiden-approver")},
	}
}

// start accepts one more run.
func (l *load) start(ctx context.Context, n int) error {
	p := l.plans[n%len(l.plans)]
	r := given.Run(fmt.Sprintf("run-%04d", n), namespace, given.Task(fmt.Sprintf("%s of run %d", p.name, n)))
	if err := l.create(ctx, r); err != nil {
		return err
	}
	if err := eventually(ctx, "the run can be read", func() error { return l.api.Get(ctx, client.ObjectKeyFromObject(r), r) }); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	uid := string(r.UID)
	known := l.known(r)
	known.Calls = p.calls
	for turn := range p.steps {
		for index := range p.widest {
			l.keys[keyOf(uid, turn, index)] = uid
		}
	}
	return nil
}

// keyOf is the Idempotency-Key of a call, which never changes.
func keyOf(run string, turn, index int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d", run, "", turn, index))
	return hex.EncodeToString(sum[:16])
}

// known is what is written down of a run.
func (l *load) known(r *v1alpha1.AgentRun) *judge.Run {
	uid := string(r.UID)
	if l.runs[uid] == nil {
		l.runs[uid] = &judge.Run{UID: uid, Name: r.Name, Created: time.Now()}
	}
	return l.runs[uid]
}

// counts are how many runs there are, and how many have ended.
func (l *load) counts() (all, ended int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.runs {
		if n := len(r.Phases); n > 0 && r.Phases[n-1].Final {
			ended++
		}
	}
	return len(l.runs), ended
}

// observe writes down each state of each run until the context ends. A watch that breaks begins anew with the present states.
func (l *load) observe(ctx context.Context) {
	for ctx.Err() == nil {
		if err := l.watch(ctx); err != nil && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the API server is away
		}
	}
}

// look writes down the present state of all runs, and is the version they were read at.
func (l *load) look(ctx context.Context) (version string, err error) {
	var list v1alpha1.AgentRunList
	if err := l.api.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return "", err
	}
	for i := range list.Items {
		l.see(ctx, &list.Items[i])
	}
	return list.ResourceVersion, nil
}

func (l *load) watch(ctx context.Context) error {
	version, err := l.look(ctx)
	if err != nil {
		return err
	}
	w, err := l.api.Watch(ctx, &v1alpha1.AgentRunList{}, client.InNamespace(namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		r, is := e.Object.(*v1alpha1.AgentRun)
		if !is || e.Type == watch.Error {
			return fmt.Errorf("the watch ended: %v", e.Object)
		}
		l.see(ctx, r)
	}
	return nil
}

func (l *load) see(ctx context.Context, r *v1alpha1.AgentRun) {
	p := phaseOf(r)
	l.mu.Lock()
	known := l.known(r)
	var before judge.Phase
	if n := len(known.Phases); n > 0 {
		before = known.Phases[n-1]
	}
	at := p.At
	p.At = before.At
	changed := p != before
	p.At = at
	if changed {
		known.Phases = append(known.Phases, p)
	}
	l.mu.Unlock()
	if p.Final && !before.Final {
		l.tidy(ctx, r)
		select {
		case l.ended <- struct{}{}:
		default:
		}
	}
}

func phaseOf(r *v1alpha1.AgentRun) judge.Phase {
	p := judge.Phase{At: time.Now(), Phase: string(r.Status.Phase), Final: apimeta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionFinished)}
	if c := apimeta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionSucceeded); c != nil {
		p.Reason = c.Reason
	}
	if p.Final {
		p.Result = r.Status.Result.Text + r.Status.Error.Message
	}
	return p
}

// tidy takes away what a run has left, as a TTL does later: thousands of Jobs would slow the cluster down.
func (l *load) tidy(ctx context.Context, r *v1alpha1.AgentRun) {
	go func() {
		_ = l.api.DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelRunUID: string(r.UID)},
			client.PropagationPolicy(metav1.DeletePropagationBackground))
	}()
}

// decide approves whatever is asked until the context ends.
func (l *load) decide(ctx context.Context) {
	for ctx.Err() == nil {
		var list v1alpha1.ApprovalRequestList
		if err := l.alice.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{"status.phase": string(v1alpha1.ApprovalPending)}); err == nil {
			for i := range list.Items {
				// A decision whose answer was lost is there, and a second one is refused as final.
				_ = l.alice.Patch(ctx, &list.Items[i], client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"decision":{"verdict":"Approved"}}}`)))
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}
