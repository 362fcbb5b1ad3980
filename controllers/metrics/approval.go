package metrics

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

var approvalsDecided = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "ekiden_approvals_decided_total",
	Help: "Approval requests that are no longer open, by verdict: approved, denied, happened, not_happened, retry, expired, too_late (decided after that), withdrawn, same_person (approved twice by one person), or not_guarded (decided while the admission policies were not in force).",
}, []string{"verdict"})

// verdicts are the labels of the reasons with which a request ends.
var verdicts = map[string]string{
	v1alpha1.ReasonApproved:    "approved",
	v1alpha1.ReasonDenied:      "denied",
	v1alpha1.ReasonHappened:    "happened",
	v1alpha1.ReasonNotHappened: "not_happened",
	v1alpha1.ReasonRetry:       "retry",
	v1alpha1.ReasonExpired:     "expired",
	v1alpha1.ReasonTooLate:     "too_late",
	v1alpha1.ReasonWithdrawn:   "withdrawn",
	v1alpha1.ReasonSamePerson:  "same_person",
	v1alpha1.ReasonNotGuarded:  "not_guarded",
}

// ApprovalDecided counts a request whose end has just been recorded with the reason.
func ApprovalDecided(reason string) {
	if verdict, ok := verdicts[reason]; ok {
		approvalsDecided.WithLabelValues(verdict).Inc()
	}
}

// Approvals is how the open requests stand.
type Approvals struct {
	Open int
	// Oldest is how long the oldest has been open.
	Oldest time.Duration
	// Guarded says that decisions are honoured.
	Guarded bool
}

var (
	approvalsPending = prometheus.NewDesc("ekiden_approvals_pending",
		"Approval requests that are open. Only the manager that works tells.", nil, nil)
	approvalsOldest = prometheus.NewDesc("ekiden_approvals_oldest_pending_seconds",
		"Age of the oldest open approval request, in seconds; 0 if none is open. Only the manager that works tells.", nil, nil)
	approvalsGuarded = prometheus.NewDesc("ekiden_approvals_guarded",
		"1 if the admission policies that guard decisions are installed as they should be and every decision was honoured; 0 if decisions are not honoured, and the condition ApprovalsGuarded of a request says why. Only the manager that works tells.", nil, nil)
)

// approvals asks for the state at each scrape: a value that is kept would be wrong after a restart, and an age is wrong as
// soon as it is written.
type approvals struct {
	look atomic.Pointer[func(context.Context) (Approvals, bool)]
}

var openApprovals approvals

func init() {
	metrics.Registry.MustRegister(approvalsDecided, &openApprovals)
}

// ShowApprovals takes the state of the open requests from look from now on. It is false while that is not known, and for a
// manager that only waits for its turn.
func ShowApprovals(look func(context.Context) (Approvals, bool)) { openApprovals.look.Store(&look) }

// scrapeTime is how long a scrape waits for a cache that is not filled yet.
const scrapeTime = time.Second

// Describe tells what there may be.
func (*approvals) Describe(to chan<- *prometheus.Desc) {
	to <- approvalsPending
	to <- approvalsOldest
	to <- approvalsGuarded
}

// Collect tells how it stands.
func (a *approvals) Collect(to chan<- prometheus.Metric) {
	look := a.look.Load()
	if look == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	s, known := (*look)(ctx)
	if !known {
		return
	}
	guarded := 0.0
	if s.Guarded {
		guarded = 1
	}
	to <- prometheus.MustNewConstMetric(approvalsPending, prometheus.GaugeValue, float64(s.Open))
	to <- prometheus.MustNewConstMetric(approvalsOldest, prometheus.GaugeValue, s.Oldest.Seconds())
	to <- prometheus.MustNewConstMetric(approvalsGuarded, prometheus.GaugeValue, guarded)
}
