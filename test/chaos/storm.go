package chaos

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/install"
	"github.com/ekiden-dev/ekiden/hack/cluster"
	"github.com/ekiden-dev/ekiden/test/chaos/judge"
)

// blow is something that hits what all share, or what the cluster keeps of a segment.
type blow struct {
	name string
	do   func(context.Context, *storm, *rand.Rand) error
}

// storm deals out blows as the kills go on.
type storm struct {
	*hunt
}

var (
	// signals for Postgres: a fast shutdown, which closes connections in order, an immediate one, which recovers as from a
	// crash, and the crash.
	postgresBlow = blow{judge.PostgresRestart, func(ctx context.Context, s *storm, r *rand.Rand) error {
		return s.restart(ctx, "postgres", pick(r, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL), func() error {
			return s.query(ctx, func(conn *pgx.Conn) error { return conn.Ping(ctx) })
		})
	}}
	// The API server is killed: told to end it would first wait for those who watch.
	apiBlow = blow{judge.APIRestart, func(ctx context.Context, s *storm, _ *rand.Rand) error {
		return s.restart(ctx, "kube-apiserver", syscall.SIGKILL, func() error {
			return s.api.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})
		})
	}}
	managerBlow = blow{judge.ManagerKill, func(ctx context.Context, s *storm, r *rand.Rand) error { return s.depose(ctx, r) }}
)

// removals are the ways in which a segment's Job or pod goes.
var removals = []blow{
	{"Job deleted", func(ctx context.Context, s *storm, r *rand.Rand) error {
		return s.onJob(ctx, r, func(j *batchv1.Job) error {
			return s.api.Delete(ctx, j, client.PropagationPolicy(metav1.DeletePropagationBackground))
		})
	}},
	{"Job TTL 0", func(ctx context.Context, s *storm, r *rand.Rand) error {
		return s.onJob(ctx, r, func(j *batchv1.Job) error {
			return s.api.Patch(ctx, j, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"ttlSecondsAfterFinished":0}}`)))
		})
	}},
	{"pod evicted", func(ctx context.Context, s *storm, r *rand.Rand) error {
		return s.onPod(ctx, r, func(p *corev1.Pod) error {
			return s.api.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{})
		})
	}},
	{"pod deleted", func(ctx context.Context, s *storm, r *rand.Rand) error {
		return s.onPod(ctx, r, func(p *corev1.Pod) error { return s.api.Delete(ctx, p) })
	}},
	{"pod deleted by force", func(ctx context.Context, s *storm, r *rand.Rand) error {
		return s.onPod(ctx, r, func(p *corev1.Pod) error { return s.api.Delete(ctx, p, client.GracePeriodSeconds(0)) })
	}},
}

// due is a blow and after how many kills it falls.
type due struct {
	blow
	after float64
	n     int
}

// schedule spreads all blows evenly over the kills.
func (o Options) schedule() []due {
	var all []due
	spread := func(n int, of func(i int) blow) {
		for i := range n {
			all = append(all, due{of(i), (float64(i) + 0.5) / float64(n) * float64(o.Kills), i})
		}
	}
	one := func(b blow) func(int) blow { return func(int) blow { return b } }
	spread(o.PostgresRestarts, one(postgresBlow))
	spread(o.APIRestarts, one(apiBlow))
	spread(o.ManagerKills, one(managerBlow))
	spread(o.Removals, func(i int) blow { return removals[i%len(removals)] })
	slices.SortStableFunc(all, func(a, b due) int {
		switch {
		case a.after < b.after:
			return -1
		case a.after > b.after:
			return 1
		default:
			return 0
		}
	})
	return all
}

// blow deals out everything that is due, one after the other, until all is done or the context ends.
func (s *storm) blow(ctx context.Context) {
	for _, d := range s.options.schedule() {
		for float64(s.kills.Load()) < d.after && ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond) //nolint:forbidigo // the kills tell nobody
		}
		if ctx.Err() != nil {
			return
		}
		at := time.Now()
		if err := d.do(ctx, s, draw(s.options.Seed, fmt.Sprintf("%s %d", d.name, d.n))); err != nil {
			s.log("%s: %v", d.name, err) // it may have been done all the same
		}
		s.tell(judge.Fault{At: at, Kind: d.name, Took: time.Since(at)})
	}
}

// restart ends a part of the cluster, which its supervisor starts again, and waits until it answers.
func (s *storm) restart(ctx context.Context, part string, signal syscall.Signal, answers func() error) error {
	before, err := s.Describe()
	if err != nil {
		return err
	}
	pid := before.Pids[part]
	if err := syscall.Kill(pid, signal); err != nil {
		return fmt.Errorf("sending %s to %s: %w", signal, part, err)
	}
	return eventually(ctx, part+" is back", func() error {
		now, err := s.Describe()
		if err != nil {
			return err
		}
		if now.Pids[part] == pid {
			return fmt.Errorf("%s has not ended", part)
		}
		return answers()
	})
}

// depose kills managers, and waits until one leads. Their pods are deleted, so that new ones come at once and not after the
// pause of a container that keeps crashing; and if the leader was among them its lease, which nobody else holds, so that a
// successor need not wait for its end.
func (s *storm) depose(ctx context.Context, r *rand.Rand) error {
	var pods []corev1.Pod
	if err := eventually(ctx, "two managers run", func() (err error) {
		if pods, err = s.pods(ctx, cluster.ManagerNamespace); err == nil {
			pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil || s.managerOf(p) == 0 })
		}
		if err == nil && len(pods) < 2 {
			err = fmt.Errorf("%d run", len(pods))
		}
		return err
	}); err != nil {
		return err
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	victims := pods[:1+r.IntN(2)]
	if r.IntN(3) == 0 {
		victims = pods[1:]
	}
	led := false
	for _, p := range victims {
		led = leads(ctx, p) || led
		if err := syscall.Kill(s.managerOf(p), syscall.SIGKILL); err != nil {
			return fmt.Errorf("killing a manager: %w", err)
		}
	}
	for i := range victims {
		_ = s.api.Delete(ctx, &victims[i], client.GracePeriodSeconds(0)) // it is dead anyhow
	}
	if led {
		_ = s.api.Delete(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.ManagerNamespace, Name: install.Lease}})
	}
	return eventually(ctx, "a manager leads", func() error {
		now, err := s.pods(ctx, cluster.ManagerNamespace)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(now, func(p corev1.Pod) bool { return leads(ctx, p) }) {
			return fmt.Errorf("none of %d does", len(now))
		}
		return nil
	})
}

// managerOf is the process of a manager's pod, or 0.
func (s *storm) managerOf(p corev1.Pod) int {
	for _, pid := range processes() {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && filepath.Base(strings.Split(string(line), "\x00")[0]) == "manager" && strings.Contains(string(line), string(p.UID)) && alive(pid) {
			return pid
		}
	}
	return 0
}

// leads reports whether a pod is the manager that works.
func leads(ctx context.Context, p corev1.Pod) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Status.PodIP+":8080/metrics", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return err == nil && strings.Contains(string(body), `leader_election_master_status{name="`+install.Lease+`"} 1`)
}

// onJob does something to the Job of a segment that is at work.
func (s *storm) onJob(ctx context.Context, r *rand.Rand, do func(*batchv1.Job) error) error {
	return s.onPod(ctx, r, func(p *corev1.Pod) error {
		return do(&batchv1.Job{ObjectMeta: meta(p.Labels[batchv1.JobNameLabel])})
	})
}

func (s *storm) onPod(ctx context.Context, r *rand.Rand, do func(*corev1.Pod) error) error {
	return eventually(ctx, "a pod can be taken away", func() error {
		var at []string
		s.mu.Lock()
		for _, p := range s.prey {
			if p.fate.kind != zombie { // which are there for long, and would all be taken away before anybody takes over
				at = append(at, p.pod)
			}
		}
		s.mu.Unlock()
		if len(at) == 0 {
			return fmt.Errorf("nobody is at work")
		}
		slices.Sort(at)
		p := &corev1.Pod{ObjectMeta: meta(pick(r, at...))}
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodRunning || p.Labels[v1alpha1.LabelSegment] == "" {
			return fmt.Errorf("%s is %s", p.Name, p.Status.Phase)
		}
		return do(p)
	})
}
