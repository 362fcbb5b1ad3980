package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/hack/cluster"
)

// demo is one demo, with all that it has started.
type demo struct {
	place
	screen  *screen
	model   *model
	cluster *cluster.Cluster
	news    *progress
	api     client.WithWatch
	pods    typedcorev1.PodInterface
}

// runWithin bounds the run, which has limits of its own.
const runWithin = 6 * time.Minute

// show shows a run from apply to result. What it started is gone when it returns, unless it is to be kept.
func show(ctx context.Context, s *screen, keep bool) error {
	m, err := realModel()
	if err != nil {
		return err
	}
	p, err := newPlace(keep)
	if err != nil {
		return err
	}
	d := &demo{place: p, screen: s, model: m, news: &progress{screen: s, subject: "cluster"}}
	err = d.tell(ctx)
	last := context.WithoutCancel(ctx)
	switch {
	case ctx.Err() != nil:
		return errors.Join(d.stop(last), d.remove())
	case keep && d.api != nil:
		d.tellKept(last)
		return err
	case err == nil:
		return errors.Join(d.stop(last), d.remove())
	default:
		return fmt.Errorf("%w\nlogs: %s\nRemove %s when you have read them.", errors.Join(err, d.stop(last), d.keepLogs()), d.logs(), d.dir) //nolint:staticcheck // it is shown as it is
	}
}

// tell is the story: a cluster, a model, Ekiden, a run.
func (d *demo) tell(ctx context.Context) error {
	d.screen.Plain("An agent answers a support ticket. On the way its process is killed, and the run goes on.")
	for _, chapter := range []func(context.Context) error{d.startCluster, d.findModel, d.install, d.apply} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, runWithin)
	defer cancel()
	run, victim, err := d.follow(ctx)
	if err != nil {
		return err
	}
	if err := d.judge(ctx, run, victim); err != nil {
		return err
	}
	return d.lookAround(ctx, run)
}

func (d *demo) startCluster(ctx context.Context) (err error) {
	d.screen.Say("cluster", "starting etcd, API server, controllers, scheduler, node and Postgres as local processes")
	o := cluster.Options{Dir: d.dir, Repo: d.repo, Keep: d.keep, Progress: d.news}
	d.cluster, err = cluster.Start(ctx, o)
	return err
}

func (d *demo) findModel(ctx context.Context) (err error) {
	if err := d.links(); err != nil {
		return err
	}
	if d.model != nil {
		d.screen.Say("model", fmt.Sprintf("%s at %s; the demo sends it three short tasks", d.model.Name, d.model.URL))
		return nil
	}
	if d.model, err = startModel(ctx, d.place); err != nil {
		return err
	}
	d.screen.Say("model", "a scripted one, at "+d.model.URL)
	return nil
}

func (d *demo) install(ctx context.Context) error {
	d.screen.Say("ekiden", "installing: kubectl apply -k config/devcluster")
	if err := d.cluster.Install(ctx); err != nil {
		return err
	}
	d.screen.Say("ekiden", "installed; the manager is available")
	return d.connect()
}

func (d *demo) connect() error {
	cfg, err := d.cluster.Config()
	if err != nil {
		return err
	}
	scheme := k8sruntime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if d.api, err = client.NewWithWatch(cfg, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	core, err := typedcorev1.NewForConfig(cfg)
	if err != nil {
		return err
	}
	d.pods = core.Pods(namespace)
	return nil
}

// apply applies examples/ for the model at hand.
func (d *demo) apply(ctx context.Context) error {
	overlay, err := writeOverlay(d.place, d.model)
	if err != nil {
		return err
	}
	// Segments keep to the strictest of the Pod Security Standards.
	labels := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	if err := d.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}}); err != nil {
		return err
	}
	if d.model.scripted == nil {
		// Not by kubectl apply, which would keep a copy of the key in an annotation.
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: modelSecret},
			Data:       map[string][]byte{modelKey: []byte(d.model.Key)},
		}
		if err := d.api.Create(ctx, secret); err != nil {
			return err
		}
	}
	out, err := d.cluster.Kubectl(ctx, "apply", "-k", overlay)
	if err != nil {
		return err
	}
	d.screen.Say("apply", "examples/ into the namespace "+namespace+"\n"+out)
	return nil
}

// stop stops what was started.
func (d *demo) stop(ctx context.Context) error {
	err := d.model.stop()
	if d.cluster != nil {
		d.news.muted.Store(true)
		err = errors.Join(err, d.cluster.Stop(ctx))
	}
	if err == nil {
		d.screen.Say("demo", "stopped the cluster and the model")
	}
	return err
}

// judge tells how the run came out, and is an error unless all is well.
func (d *demo) judge(ctx context.Context, run *v1alpha1.AgentRun, victim *victim) error {
	status := run.Status
	if status.Phase != v1alpha1.RunSucceeded {
		return fmt.Errorf("run %s ended %s: %s: %s", run.Name, status.Phase, status.Error.Code, status.Error.Message)
	}
	u := status.Usage
	cost := "price unknown"
	if d.model.scripted != nil {
		cost = u.Cost + " USD"
	}
	d.screen.Cheer("succeeded", fmt.Sprintf("%s, %s, %d tokens in, %d tokens out, %s",
		count(int(u.Turns), "turn"), count(int(*status.Segment)+1, "segment"), u.InputTokens, u.OutputTokens, cost))
	if d.model.scripted == nil {
		if !victim.killed {
			d.screen.Say("kill", "the model was done before the demo could kill its segment")
		}
		return nil
	}
	return d.compare(ctx, run, victim)
}

// compare holds the answer of the scripted model against the script.
func (d *demo) compare(ctx context.Context, run *v1alpha1.AgentRun, victim *victim) error {
	want, err := scriptedAnswer(d.place, "reply")
	if err != nil {
		return err
	}
	asked, err := d.model.asked(ctx, theTask)
	if err != nil {
		return err
	}
	turns := int(run.Status.Usage.Turns)
	switch {
	case !victim.killed:
		return errors.New("the run succeeded, but nothing was killed on the way")
	case run.Status.Result.Text != want:
		return fmt.Errorf("the result is not what the model said:\n%s\nwanted:\n%s", run.Status.Result.Text, want)
	}
	d.screen.Say("proof", fmt.Sprintf("the result is what the model said, byte for byte: %s...\n"+
		"The model was asked %s for %s: the kill cost %s.",
		strings.TrimPrefix(run.Status.Result.Digest, "sha256:")[:12], count(asked, "time"), count(turns, "turn"), count(asked-turns, "model call")))
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
