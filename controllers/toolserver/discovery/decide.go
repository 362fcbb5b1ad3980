// Package discovery decides how the tools of a server become known, and what to tell people about it. It is pure.
//
// The tools of an HTTP server stand in its spec. Those of an MCP server are asked for by a Job, in a pod of the server's
// namespace and with that namespace's rights; the manager itself dials no address that a tenant wrote:
//
//	kept in the ledger ──────────────────────────────► known
//	not kept ─► Job ─► it keeps them ────────────────► known
//	             └──► it fails ─► the Job's time to live ends, and it is made again
package discovery

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/definition/compile"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// askAgain is when to look again at what no watch tells about.
const askAgain = time.Minute

// Facts are what is known of a server.
type Facts struct {
	Now    time.Time
	Server *v1alpha1.ToolServer
	// Jobs are the Jobs that the server owns, of whatever generation, and Pods those with its label.
	Jobs []batchv1.Job
	Pods []corev1.Pod
	// Told are the events of what Quiet names.
	Told []corev1.Event
	// Contracts are what the ledger keeps for the server's generation, read after Jobs and Pods: a Job that is seen to have
	// succeeded has left them.
	Contracts []contract.ToolContract
	// Obstacle is what acting has found in the way, which no later look shows.
	Obstacle *Obstacle
}

// Obstacle is what keeps a server from being asked until somebody does something.
type Obstacle struct{ Reason, Message string }

// Decision is what to do: the effects in their order, each harmless to repeat, then one status, then its event.
type Decision struct {
	Do     []Effect
	Report Report
	// Wake is after how long to look again if nothing changes; zero means that a watch will do.
	Wake time.Duration
}

// Report is what the condition Ready says.
type Report struct {
	Status          metav1.ConditionStatus
	Reason, Message string
	// Tools are what the server offers, if that is known. None leaves those that the status shows: they were found by an
	// earlier discovery.
	Tools []v1alpha1.DiscoveredTool
}

// Effect is one write outside the server's own status.
type Effect interface{ isEffect() }

type (
	// Remove deletes a Job: that of an earlier generation, or one whose time is over.
	Remove struct {
		Name string
		UID  types.UID
	}
	// Keep writes contracts into the ledger.
	Keep struct{ Tools []contract.ToolContract }
	// Start provisions the namespace and creates the Job of this generation.
	Start struct{}
)

func (Remove) isEffect() {}
func (Keep) isEffect()   {}
func (Start) isEffect()  {}

// Decide says what to do about a server. It is total.
func Decide(f Facts) Decision {
	if o := f.Obstacle; o != nil {
		return Decision{Report: failed(o.Reason, o.Message+"; it is tried again each minute"), Wake: askAgain}
	}
	d := decide(f)
	d.Do = append(removals(f), d.Do...)
	return d
}

func decide(f Facts) Decision {
	if err := compile.CheckEgress(f.Server.Spec.Egress); err != nil {
		return invalid(fmt.Errorf("spec.egress.allow: %w: list address ranges such as 10.20.0.0/16", err))
	}
	if f.Server.Spec.Type == v1alpha1.ToolServerHTTP {
		return written(f)
	}
	if len(f.Contracts) == 0 {
		return asked(f)
	}
	tools, err := offered(f.Server, f.Contracts)
	if err != nil {
		return Decision{Report: failed(v1alpha1.ReasonDiscoveryFailed, fmt.Sprintf("what the server offers cannot be used: %v. Change spec.release once the server is corrected, and it is asked again", err))}
	}
	return Decision{Report: known(f.Server, tools)}
}

// removals are the Jobs that nobody waits for any more.
func removals(f Facts) []Effect {
	var do []Effect
	for i := range f.Jobs {
		j := &f.Jobs[i]
		current := f.Server.Spec.Type == v1alpha1.ToolServerMCP && j.Name == Name(f.Server)
		if !current && j.DeletionTimestamp.IsZero() {
			do = append(do, Remove{Name: j.Name, UID: j.UID})
		}
	}
	return do
}

// written is about a server whose tools stand in its spec. What the ledger keeps is brought in line with that, because
// every login of the namespace may have written there first.
func written(f Facts) Decision {
	contracts, err := spelled(f.Server)
	if err != nil {
		return invalid(err)
	}
	tools, err := offered(f.Server, contracts)
	if err != nil {
		return invalid(fmt.Errorf("spec.http.tools: %w", err))
	}
	d := Decision{Report: known(f.Server, tools)}
	if kept, err := offered(f.Server, f.Contracts); err != nil || !same(kept, tools) {
		d.Do = []Effect{Keep{Tools: contracts}}
	}
	return d
}

// asked is about a server that a Job has to ask.
func asked(f Facts) Decision {
	job := f.job()
	if job == nil {
		return Decision{Do: []Effect{Start{}}, Report: asking(Name(f.Server), "")}
	}
	if end := ended(job); end != nil {
		reason, says := account(job, *end, f.Pods, f.Told)
		return Decision{Report: failed(reason, fmt.Sprintf("the server could not be asked for its tools: %s. It is asked again %s, and at once when its spec changes", says, retry(*end)))}
	}
	return waited(f, job)
}

// job is the Job that asks for the tools of the newest spec, or nil.
func (f Facts) job() *batchv1.Job {
	for i := range f.Jobs {
		if f.Jobs[i].Name == Name(f.Server) {
			return &f.Jobs[i]
		}
	}
	return nil
}

func asking(job, trouble string) Report {
	message := fmt.Sprintf("Job %s asks the server for its tools", job)
	if trouble != "" {
		message = fmt.Sprintf("Job %s has not started: %s", job, trouble)
	}
	return Report{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonDiscovering, Message: message}
}

func known(s *v1alpha1.ToolServer, tools []v1alpha1.DiscoveredTool) Report {
	message := fmt.Sprintf("%d tools are known", len(tools))
	if len(tools) == 1 {
		message = "1 tool is known"
	}
	if idle := undone(s, tools); idle != "" {
		message += ". spec.tools declares " + idle + ", which the server does not offer: correct the name, or take it out"
	}
	return Report{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDiscovered, Message: message, Tools: tools}
}

func invalid(err error) Decision {
	return Decision{Report: failed(v1alpha1.ReasonInvalid, err.Error())}
}

func failed(reason, message string) Report {
	return Report{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}
