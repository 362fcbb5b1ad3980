// Package metrics holds every metric of the manager. Pods live for minutes and are not scraped: the manager counts
// from what they left behind. Labels are closed sets; no object's name is one.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

var (
	runsEnded = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ekiden_runs_ended_total",
		Help: "Runs that have ended, by phase and reason; a reason that is not one of the API's is Other.",
	}, []string{"phase", "reason"})

	runSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "ekiden_run_duration_seconds",
		Help:    "Time from the creation of a run to its end, in seconds, waiting included.",
		Buckets: []float64{1, 3, 10, 30, 60, 180, 600, 1800, 3600, 14400, 86400, 604800},
	}, []string{"phase"})

	attemptsEnded = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ekiden_segment_attempts_ended_total",
		Help: "Attempts at segments that have ended, by class.",
	}, []string{"class"})

	tokens = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ekiden_model_tokens_total",
		Help: "Tokens used by runs that have ended, by kind: input, cached_input (part of input) or output.",
	}, []string{"kind"})

	rowsDeleted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ekiden_rows_deleted_total",
		Help: "Rows of Postgres that were deleted because they are older than they are kept, by table.",
	}, []string{"table"})
)

func init() {
	metrics.Registry.MustRegister(runsEnded, runSeconds, attemptsEnded, tokens, rowsDeleted)
}

// RunEnded counts a run whose end has just been recorded.
func RunEnded(run *v1alpha1.AgentRun) {
	s := run.Status
	runsEnded.WithLabelValues(string(s.Phase), reasonOf(s)).Inc()
	runSeconds.WithLabelValues(string(s.Phase)).Observe(s.FinishedAt.Sub(run.CreationTimestamp.Time).Seconds())
	tokens.WithLabelValues("input").Add(float64(s.Usage.InputTokens))
	tokens.WithLabelValues("cached_input").Add(float64(s.Usage.CachedInputTokens))
	tokens.WithLabelValues("output").Add(float64(s.Usage.OutputTokens))
}

// AttemptEnded counts an attempt whose end has just been written down.
func AttemptEnded(class string) { attemptsEnded.WithLabelValues(class).Inc() }

// RowsDeleted counts rows of a table that were deleted because they are old.
func RowsDeleted(table string, n int64) { rowsDeleted.WithLabelValues(table).Add(float64(n)) }
