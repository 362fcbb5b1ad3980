package main

import (
	"context"
	"errors"
	"fmt"

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
	tools   *tools
	cluster *cluster.Cluster
	news    *progress
	api     client.WithWatch
	pods    typedcorev1.PodInterface
}

// show shows two runs from apply to result. What it started is gone when it returns, unless it is to be kept.
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

// tell is the story: a cluster, a model, tools, Ekiden, a run that dies and goes on, a run that waits for people.
func (d *demo) tell(ctx context.Context) error {
	d.screen.Plain(`Two stories. An agent answers a support ticket; on the way its process is killed, and the run goes on.
Another one wants to pay money back; the run waits, without a process, until somebody says yes.`)
	for _, chapter := range []func(context.Context) error{d.startCluster, d.findModel, d.findTools, d.install, d.apply, d.reply, d.refund} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	if !d.keep {
		d.screen.Plain("KEEP=1 make demo does the same and leaves the cluster up, for you to look around.")
	}
	return nil
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
		d.screen.Say("model", fmt.Sprintf("%s at %s; the demo sends it four short tasks", d.model.Name, d.model.URL))
		return nil
	}
	if d.model, err = startModel(ctx, d.place); err != nil {
		return err
	}
	d.screen.Say("model", "a scripted one, at "+d.model.URL)
	return nil
}

func (d *demo) findTools(ctx context.Context) (err error) {
	if d.tools, err = startTools(ctx, d.place); err != nil {
		return err
	}
	d.screen.Say("tools", "an MCP server, at "+d.tools.url("/mcp"))
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

// apply applies examples/ for the model and the tools at hand, but for the run of the second story.
func (d *demo) apply(ctx context.Context) error {
	overlay, err := writeOverlay(d.place, d.model, d.tools)
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
	err := errors.Join(d.tools.stop(), d.model.stop())
	if d.cluster != nil {
		d.news.muted.Store(true)
		err = errors.Join(err, d.cluster.Stop(ctx))
	}
	if err == nil {
		d.screen.Say("demo", "stopped the cluster, the model and the tools")
	}
	return err
}
