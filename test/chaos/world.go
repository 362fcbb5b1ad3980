package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/hack/cluster"
)

const (
	namespace = "chaos"
	approver  = "alice"
)

// world is what is broken: a cluster of its own with Ekiden in it, and the processes around it.
type world struct {
	*cluster.Cluster
	api client.WithWatch
	// alice is the API as the approver sees it.
	alice client.Client
	tools *exec.Cmd
	// book is the tool server's, url its address.
	book, url string
	log       func(format string, args ...any)
}

// begin starts a cluster in a folder, installs Ekiden, and starts the tool server.
func begin(ctx context.Context, o Options, dir, repo string, log func(string, ...any)) (*world, error) {
	progress, err := os.Create(filepath.Join(dir, "cluster.log"))
	if err != nil {
		return nil, err
	}
	built, err := programs(ctx, o, repo, filepath.Join(dir, "programs"))
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Options{Dir: dir, Repo: repo, Programs: built, Node: cluster.NodeProcess, Progress: progress})
	if err != nil {
		return nil, err
	}
	w := &world{Cluster: c, book: filepath.Join(dir, "book.jsonl"), log: log}
	for _, step := range []func(context.Context) error{c.Install, w.connect, w.testify, w.serve} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, w.end()) //nolint:contextcheck // it ends whatever has ended already
		}
	}
	return w, nil
}

func (w *world) end() error {
	if w.tools != nil {
		_ = w.tools.Process.Kill()
		_ = w.tools.Wait()
	}
	return w.Stop(context.Background())
}

func (w *world) connect(context.Context) error {
	ctrllog.SetLogger(logr.Discard()) // what clients say while everything breaks
	cfg, err := w.Config()
	if err != nil {
		return err
	}
	scheme := k8sruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if w.api, err = client.NewWithWatch(cfg, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	as := rest.CopyConfig(cfg)
	as.Impersonate = rest.ImpersonationConfig{UserName: approver}
	w.alice, err = client.New(as, client.Options{Scheme: scheme})
	return err
}

// serve starts the tool server, a process of its own that nobody kills.
func (w *world) serve(ctx context.Context) error {
	ready := filepath.Join(w.Dir, "toolserver.address")
	w.tools = exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(w.Repo, "bin", "toolserver"), "-listen", "127.0.0.1:0", "-book", w.book, "-ready-file", ready)
	if err := cluster.StartBound(w.tools); err != nil {
		return err
	}
	return eventually(ctx, "the tool server listens", func() error {
		b, err := os.ReadFile(ready)
		w.url = "http://" + strings.TrimSpace(string(b))
		return err
	})
}

// query asks Postgres as whoever may see everything, again while it is down.
func (w *world) query(ctx context.Context, ask func(*pgx.Conn) error) error {
	return eventually(ctx, "Postgres answers", func() error {
		d, err := w.Describe()
		if err != nil {
			return err
		}
		u, err := url.Parse(d.Postgres.SuperuserDSN)
		if err != nil {
			return err
		}
		u.Path = "/ekiden"
		conn, err := pgx.Connect(ctx, u.String())
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is left to lose
		return ask(conn)
	})
}

// create creates objects, again while the API server is down. One that is there already was created by a request whose answer
// was lost.
func (w *world) create(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := eventually(ctx, "the API server answers", func() error { return client.IgnoreAlreadyExists(w.api.Create(ctx, o)) }); err != nil {
			return fmt.Errorf("creating %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}

func (w *world) pods(ctx context.Context, in string) (pods []corev1.Pod, err error) {
	var list corev1.PodList
	err = w.api.List(ctx, &list, client.InNamespace(in))
	return list.Items, err
}

// patience is how long is waited for what has to come.
const patience = time.Minute

// eventually tries again until it holds. It is for a world that may be broken at any moment.
func eventually(ctx context.Context, what string, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("never: %s: %w", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
