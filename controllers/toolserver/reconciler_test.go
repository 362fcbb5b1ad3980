package toolserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/pod"
	"github.com/ekiden-dev/ekiden/controllers/toolserver/discovery"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// life is a server from its creation on, and what is left of it.
type life struct {
	server *v1alpha1.ToolServer
	live   func(w *world)

	wantReason     string
	wantReasons    string
	wantTools      string
	wantGeneration int64
	// wantJobs are the Jobs that are left, wantWrites all writes of an undisturbed life.
	wantJobs, wantWrites int
}

func overHTTP(s *v1alpha1.ToolServer) {
	s.Spec = v1alpha1.ToolServerSpec{Type: v1alpha1.ToolServerHTTP, HTTP: v1alpha1.HTTPServer{URL: "https://crm.example", Tools: []v1alpha1.HTTPTool{
		{Name: "all", Description: "Lists all.", Method: "GET", Path: "/all", Input: v1alpha1.ToolInput{Schema: &apiextensionsv1.JSON{Raw: []byte(`{"type": "object"}`)}}},
	}}}
}

func release(s *v1alpha1.ToolServer) { s.Spec.Release += "x" }

var lives = map[string]life{
	"asked once": {
		// provision, Job, two statuses
		wantReason: v1alpha1.ReasonDiscovered, wantReasons: "Discovering Discovered", wantTools: "a b", wantGeneration: 1, wantJobs: 1, wantWrites: 4,
	},
	"asked in vain, and again when the Job has gone": {
		live: func(w *world) {
			w.words = `{"fault":"ToolServerUnreachable","message":"nobody answers"}`
			w.settle()
			w.words = ""
			w.expire()
			w.settle()
		},
		wantReason: v1alpha1.ReasonDiscovered, wantReasons: "Discovering DiscoveryFailed Discovering Discovered", wantTools: "a b", wantGeneration: 1, wantJobs: 1, wantWrites: 8,
	},
	"edited, and asked again": {
		live: func(w *world) {
			w.settle()
			w.offers = []contract.ToolContract{tool("c")}
			w.edit(release)
			w.settle()
		},
		wantReason: v1alpha1.ReasonDiscovered, wantReasons: "Discovering Discovered Discovering Discovered", wantTools: "c", wantGeneration: 2, wantJobs: 1, wantWrites: 9,
	},
	"edited while it is asked": {
		live: func(w *world) {
			for {
				if _, err := w.Reconcile(w.Context(), w.server()); err == nil {
					break
				}
			}
			w.edit(release)
			w.settle()
		},
		wantReason: v1alpha1.ReasonDiscovered, wantReasons: "Discovering Discovered", wantTools: "a b", wantGeneration: 2, wantJobs: 1, wantWrites: 8,
	},
	"edited into nonsense, with the tools of before": {
		live: func(w *world) {
			w.settle()
			w.words = "nonsense"
			w.edit(release)
			w.settle()
		},
		wantReason: v1alpha1.ReasonDiscoveryFailed, wantReasons: "Discovering Discovered Discovering DiscoveryFailed", wantTools: "a b", wantGeneration: 1, wantJobs: 1, wantWrites: 9,
	},
	"an HTTP server is not asked": {
		server:     crm(overHTTP),
		wantReason: v1alpha1.ReasonDiscovered, wantReasons: "Discovered", wantTools: "all", wantGeneration: 1, wantWrites: 2,
	},
	"an MCP server that becomes an HTTP server": {
		live: func(w *world) {
			w.settle()
			w.edit(overHTTP)
			w.settle()
		},
		wantReason: v1alpha1.ReasonDiscovered, wantReasons: "Discovering Discovered", wantTools: "all", wantGeneration: 2, wantWrites: 7,
	},
	"an HTTP server that is edited into nonsense": {
		server: crm(overHTTP),
		live: func(w *world) {
			w.settle()
			w.edit(func(s *v1alpha1.ToolServer) { s.Spec.HTTP.Tools[0].Path = "/{id}" })
			w.settle()
		},
		wantReason: v1alpha1.ReasonInvalid, wantReasons: "Discovered Invalid", wantTools: "all", wantGeneration: 1, wantWrites: 3,
	},
}

func (l life) play(t *testing.T, hit int, lost bool) *world {
	t.Helper()
	if l.server == nil {
		l.server = crm()
	}
	w := newWorld(t, l.server.DeepCopy())
	w.hit, w.lost = hit, lost
	if l.live == nil {
		l.live = (*world).settle
	}
	l.live(w)
	return w
}

// verify checks what a life leaves behind, however it went.
func (l life) verify(w *world) {
	w.Helper()
	s := w.server().Status
	if c := w.ready(); c.Reason != l.wantReason || c.ObservedGeneration != w.server().Generation || s.ObservedGeneration != w.server().Generation {
		w.Errorf("status %+v", s)
	}
	if names(s) != l.wantTools || s.DiscoveredGeneration != l.wantGeneration {
		w.Errorf("tools %q of generation %d", names(s), s.DiscoveredGeneration)
	}
	if w.reasons() != l.wantReasons {
		w.Errorf("reasons %s, want %s", w.reasons(), l.wantReasons)
	}
	if n := len(w.jobs()); n != l.wantJobs {
		w.Errorf("%d Jobs, want %d", n, l.wantJobs)
	}
}

// TestWholeLives plays each life undisturbed, and counts.
func TestWholeLives(t *testing.T) {
	t.Parallel()
	for name, l := range lives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := l.play(t, 0, false)
			l.verify(w)
			if w.writes != l.wantWrites {
				t.Errorf("%d writes, want %d", w.writes, l.wantWrites)
			}
			if len(w.said) != len(w.statuses) {
				t.Errorf("%d statuses, and the events %q", len(w.statuses), w.said)
			}
			writes := w.writes
			w.reconcile()
			if w.writes != writes {
				t.Errorf("%d writes when nothing has changed", w.writes-writes)
			}
		})
	}
}

// TestKilledBetweenEveryTwoWrites plays each life once for every write in it, and kills the manager at that write:
// before it happens, and after it has happened and before it is known.
func TestKilledBetweenEveryTwoWrites(t *testing.T) {
	t.Parallel()
	for name, l := range lives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := l.play(t, 0, false)
			for n := 1; n <= whole.writes; n++ {
				for _, lost := range []bool{false, true} {
					t.Run(fmt.Sprintf("write %d, carried out %v", n, lost), func(t *testing.T) {
						w := l.play(t, n, lost)
						l.verify(w)
						if diff := cmp.Diff(whole.server().Status, w.server().Status, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
							t.Errorf("status (-undisturbed +disturbed):\n%s", diff)
						}
						if diff := cmp.Diff(whole.created, w.created); diff != "" {
							t.Errorf("Jobs that were created (-undisturbed +disturbed):\n%s", diff)
						}
						if missing := len(whole.said) - len(w.said); missing < 0 || missing > 0 && !lost {
							t.Errorf("events (-undisturbed +disturbed):\n%s", cmp.Diff(whole.said, w.said))
						}
					})
				}
			}
		})
	}
}

func TestACacheThatLagsMakesNothingTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, crm())
	w.stale = true
	w.reconcile()
	w.reconcile()
	if len(w.created) != 1 || len(w.said) != 1 || w.ready().Reason != v1alpha1.ReasonDiscovering {
		t.Errorf("Jobs %v, events %q", w.created, w.said)
	}
}

// TestWhatStandsInTheWay is told once, tried again, and got over.
func TestWhatStandsInTheWay(t *testing.T) {
	t.Parallel()
	forbidden := func(what string) func(client.Object) error {
		return func(client.Object) error {
			return apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, what, errors.New("exceeded quota"))
		}
	}
	foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: discovery.Name(crm())}}
	tests := map[string]struct {
		objects []client.Object
		meddle  func(*world)
		mend    func(*world)
		want    string
	}{
		"a Job of somebody else": {
			objects: []client.Object{foreign},
			mend:    func(w *world) { w.expire() },
			want:    "Warning NameTaken a Job named " + foreign.Name + " exists and belongs to somebody else: delete it; it is tried again each minute",
		},
		"a Job of somebody else that looks like ours": {
			objects: []client.Object{func() client.Object {
				j := foreign.DeepCopy()
				j.Labels = map[string]string{discovery.LabelServerUID: string(serverUID)}
				return j
			}()},
			mend: func(w *world) { w.expire() },
			want: "Warning NameTaken a Job named " + foreign.Name + " exists and belongs to somebody else: delete it; it is tried again each minute",
		},
		"a quota": {
			meddle: func(w *world) { w.refuse = forbidden("x") },
			mend:   func(w *world) { w.refuse = nil },
			want:   "Warning DiscoveryFailed the server cannot be asked for its tools: job " + foreign.Name + `: jobs.batch "x" is forbidden: exceeded quota; it is tried again each minute`,
		},
		"a Secret that is not ours": {
			meddle: func(w *world) {
				w.unfit = fmt.Errorf("wrapped: %w", &UnfitError{Message: "delete Secret ekiden-postgres"})
			},
			mend: func(w *world) { w.unfit = nil },
			want: "Warning DiscoveryFailed delete Secret ekiden-postgres; it is tried again each minute",
		},
		"a right that is missing": {
			meddle: func(w *world) {
				w.unfit = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "ekiden-postgres", errors.New("no"))
			},
			mend: func(w *world) { w.unfit = nil },
			want: `Warning DiscoveryFailed the server cannot be asked for its tools: provisioning the namespace: secrets "ekiden-postgres" is forbidden: no; it is tried again each minute`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, crm(), tc.objects...)
			if tc.meddle != nil {
				tc.meddle(w)
			}
			if got := w.reconcile().RequeueAfter; got != time.Minute {
				t.Errorf("looks again after %v", got)
			}
			w.reconcile()
			if diff := cmp.Diff([]string{tc.want}, w.said); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			tc.mend(w)
			w.settle()
			if names(w.server().Status) != "a b" {
				t.Errorf("status %+v", w.server().Status)
			}
		})
	}
}

// TestWhatIsTriedAgain is returned, and nothing is told to people.
func TestWhatIsTriedAgain(t *testing.T) {
	t.Parallel()
	unavailable := errors.New("postgres is away")
	w := newWorld(t, crm())
	w.unfit = unavailable
	if _, err := w.Reconcile(t.Context(), w.server()); !errors.Is(err, unavailable) {
		t.Errorf("got %v", err)
	}
	w.unfit, w.Ledger = nil, away{w, unavailable}
	if _, err := w.Reconcile(t.Context(), w.server()); !errors.Is(err, unavailable) {
		t.Errorf("got %v", err)
	}
	if len(w.statuses)+len(w.created) != 0 {
		t.Errorf("statuses %+v, Jobs %v", w.statuses, w.created)
	}
}

// away is a ledger that cannot be read.
type away struct {
	Ledger
	err error
}

func (a away) Contracts(context.Context, types.UID, types.UID, int64) ([]contract.ToolContract, error) {
	return nil, a.err
}

func TestWhatGoesIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(w *world){
		"the server": func(w *world) { w.ok(w.api.Delete(t.Context(), w.server())) },
		"its namespace": func(w *world) {
			var ns corev1.Namespace
			w.ok(w.api.Get(t.Context(), client.ObjectKey{Name: namespace}, &ns))
			ns.Finalizers = []string{"test/left"}
			w.ok(w.api.Update(t.Context(), &ns))
			w.ok(w.api.Delete(t.Context(), &ns))
		},
		"its namespace, and only the API server knows": func(w *world) {
			w.refuse = func(o client.Object) error {
				err := apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, o.GetName(), errors.New("being terminated"))
				err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := crm()
			server.Finalizers = []string{"test/left"}
			w := newWorld(t, server)
			remove(w)
			if got := w.reconcile(); got != (reconcile.Result{}) {
				t.Errorf("looks again: %+v", got)
			}
			if len(w.statuses)+len(w.created)+len(w.said) != 0 {
				t.Errorf("statuses %+v, Jobs %v, events %q", w.statuses, w.created, w.said)
			}
		})
	}
}

// TestALongAnswerFits: what is said about a failure is bounded, in the status and in its event.
func TestALongAnswerFits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, crm())
	w.words = `{"fault":"ToolServerUnreachable","message":"` + strings.Repeat("x", 4000) + `"}`
	w.settle()
	if got := w.ready().Message; !strings.HasSuffix(got, "It is asked again in some minutes, and at once when its spec changes") {
		t.Errorf("message %q", got)
	}
}

func TestAPodWakesItsServer(t *testing.T) {
	t.Parallel()
	j, err := discovery.Build(crm(), teamUID, "image", pod.BuiltIn())
	if err != nil {
		t.Fatal(err)
	}
	its := &corev1.Pod{ObjectMeta: j.Spec.Template.ObjectMeta}
	its.Namespace = namespace
	want := []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: "crm"}}}
	if diff := cmp.Diff(want, serverOfPod(t.Context(), its)); diff != "" {
		t.Errorf("serverOfPod() (-want +got):\n%s", diff)
	}
	if got := serverOfPod(t.Context(), &corev1.Pod{}); got != nil {
		t.Errorf("the pod of a segment wakes %v", got)
	}
}
