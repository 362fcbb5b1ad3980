// Command manager runs the controllers of Ekiden.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers"
	"github.com/ekiden-dev/ekiden/controllers/install"
	ledgerpostgres "github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/controllers/pod"
	"github.com/ekiden-dev/ekiden/controllers/sweep"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
)

type options struct {
	dsnFile        string
	segmentAddress string
	segmentImage   string
	podDefaults    string
	namespace      string
	metricsAddress string
	healthAddress  string
	leaderElect    bool
	migrate        bool
	verbosity      int
	keep           sweep.Keep
}

func main() {
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(1)
	}
}

func command() *cobra.Command {
	const day = sweep.Window(24 * time.Hour)
	o := options{keep: sweep.Keep{Sessions: 30 * day, Runs: 400 * day, Policies: 400 * day}}
	root := &cobra.Command{
		Use:           "manager",
		Short:         "Run the controllers of Ekiden",
		Long:          "Runs the controllers of Ekiden against the Kubernetes API (in-cluster, or the cluster of KUBECONFIG) and Postgres.\nSeveral replicas may run with --leader-elect; one works.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: false,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	all := root.PersistentFlags()
	all.StringVar(&o.dsnFile, "postgres-dsn-file", "/var/run/ekiden/postgres/dsn", "file that holds the DSN of Postgres, such as postgres://manager:password@host:5432/ekiden; the login needs CREATEROLE and owns the database")
	f := root.Flags()
	f.StringVar(&o.segmentAddress, "segment-postgres-address", "", "host:port of Postgres as segment pods see it; empty means that of the DSN")
	f.StringVar(&o.segmentImage, "segment-image", "", "image of segment pods (required)")
	f.StringVar(&o.podDefaults, "pod-defaults-file", "", "file of pod settings, written as spec.pods of an AgentPolicy, which those of the policies are laid over; read at the start")
	f.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "the manager's own namespace, for its lease and its AgentPolicy; defaults to POD_NAMESPACE")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", "127.0.0.1:8080", "address of /metrics; 0 turns it off")
	f.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	f.BoolVar(&o.leaderElect, "leader-elect", false, "work only while holding the lease ekiden-manager")
	f.BoolVar(&o.migrate, "migrate", true, "bring the database's schema up to date at the start; otherwise run 'manager migrate' before an upgrade")
	f.Var(&o.keep.Sessions, "keep-sessions", "how long transcripts, calls, decisions and snapshots of runs are kept after their end, in days such as 30d or as a duration such as 720h; 0 means for ever; what has an AgentRun is kept in any case")
	f.Var(&o.keep.Runs, "keep-runs", "how long ended runs are remembered with their usage and their idempotency keys, at least as long as their sessions; 0 means for ever; what has an AgentRun is kept in any case")
	f.Var(&o.keep.Policies, "keep-policies", "how long versions of policies are kept after the next one; 0 means for ever")
	f.IntVar(&o.verbosity, "v", 0, "log level: 0 what an operator acts on, 1 decisions, 2 the flow")
	root.AddCommand(&cobra.Command{
		Use:          "migrate",
		Short:        "Bring the database's schema up to date and exit",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dsn, err := readDSN(o.dsnFile)
			if err != nil {
				return err
			}
			return postgres.Migrate(cmd.Context(), dsn)
		},
	})
	root.AddCommand(checkCommand(&o.dsnFile), uninstallCommand())
	return root
}

func run(ctx context.Context, o options) error {
	ctrl.SetLogger(zap.New(zap.Level(zapLevel(o.verbosity))))
	switch {
	case o.segmentImage == "":
		return errors.New("--segment-image is missing")
	case o.namespace == "":
		return errors.New("--namespace is missing and POD_NAMESPACE is not set")
	}
	if err := o.keep.Check(); err != nil {
		return err
	}
	dsn, err := readDSN(o.dsnFile)
	if err != nil {
		return err
	}
	segmentDSN, err := addressFor(dsn, o.segmentAddress)
	if err != nil {
		return err
	}
	pods, err := podDefaults(o.podDefaults)
	if err != nil {
		return err
	}
	if o.migrate {
		if err := migrate(ctx, dsn); err != nil {
			return err
		}
	}
	ledger, err := ledgerpostgres.Open(ctx, dsn)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer ledger.Close()
	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	if err := controllers.Setup(ctx, mgr, controllers.Options{
		Ledger: ledger, Namespace: o.namespace, SegmentImage: o.segmentImage, SegmentDSN: segmentDSN, Pods: pods, Keep: o.keep,
	}); err != nil {
		return fmt.Errorf("setting up controllers: %w", err)
	}
	if err := errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("postgres", func(r *http.Request) error { return ledger.Ping(r.Context()) }),
	); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newManager(o options) (ctrl.Manager, error) {
	scheme, err := scheme()
	if err != nil {
		return nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 100, 200
	// Those of segments and of discoveries alike. Whose they are is asked of their owners, not of their labels.
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{"app.kubernetes.io/managed-by": "ekiden"})}
	grace := 20 * time.Second
	return ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.healthAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              install.Lease,
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &grace,
		Cache: cache.Options{
			ByObject:         map[client.Object]cache.ByObject{&batchv1.Job{}: ours, &corev1.Pod{}: ours},
			DefaultTransform: cache.TransformStripManagedFields(),
		},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	})
}

// migrate waits for a Postgres that is still starting: the manager is often started together with it.
func migrate(ctx context.Context, dsn string) error {
	log := ctrl.Log.WithName("migrate")
	for n := 0; ; n++ {
		err := postgres.Migrate(ctx, dsn)
		if err == nil || n >= 30 || ctx.Err() != nil {
			return err
		}
		log.Info("the database cannot be migrated yet", "reason", err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Second):
		}
	}
}

func readDSN(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--postgres-dsn-file: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// podDefaults are the settings of the file, or none.
func podDefaults(file string) (v1alpha1.PodSettings, error) {
	if file == "" {
		return v1alpha1.PodSettings{}, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return v1alpha1.PodSettings{}, fmt.Errorf("--pod-defaults-file: %w", err)
	}
	s, err := pod.Parse(b)
	if err != nil {
		return s, fmt.Errorf("--pod-defaults-file %s: %w", file, err)
	}
	return s, nil
}

// addressFor is the DSN without its login, at the address that segments use.
func addressFor(dsn, address string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" { // the error would repeat the password
		return "", errors.New("--postgres-dsn-file must hold a URL such as postgres://manager:password@host:5432/ekiden")
	}
	u.User = nil
	if address != "" {
		u.Host = address
	}
	return u.String(), nil
}

// zapLevel turns a verbosity of logr into a level of zap, which counts the other way and in a byte.
func zapLevel(v int) zapcore.Level { return zapcore.Level(max(math.MinInt8, min(-v, math.MaxInt8))) }
