// Package request turns the asks of a run that waits into ApprovalRequests. It is pure.
package request

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// Name is the name of a request. It is a function of the run, the call, the seat and how often the seat was asked before, so
// that asking twice is a conflict and not a second question.
func Name(run *v1alpha1.AgentRun, k lifecycle.RequestKey) string {
	call := fmt.Sprintf("%s-t%dc%d", lifecycle.Stem(run.Name, run.UID), k.Turn, k.Index)
	if k.Type == v1alpha1.ApprovalIndeterminate { // it has one seat
		return fmt.Sprintf("%s-ask%d", call, k.Ordinal+1)
	}
	name := call + "-gate"
	if k.Seat > 1 {
		name += fmt.Sprintf("-s%d", k.Seat)
	}
	if k.Ordinal > 0 {
		name += fmt.Sprintf("-r%d", k.Ordinal)
	}
	return name
}

// Build is the request for one seat of a call that a run asks about. asked is when the run began to wait.
func Build(run *v1alpha1.AgentRun, principal v1alpha1.Principal, r lifecycle.Raise, asked time.Time) *v1alpha1.ApprovalRequest {
	turn, index := int32(r.Ask.Turn), int32(r.Ask.Index) //nolint:gosec // bounded by limits.turns and the calls of an answer
	return &v1alpha1.ApprovalRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name:            Name(run, r.Key()),
			Namespace:       run.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(run, v1alpha1.GroupVersion.WithKind("AgentRun"))},
			Labels: map[string]string{
				v1alpha1.LabelRunUID:           string(run.UID),
				v1alpha1.LabelRootUID:          string(run.UID),
				"app.kubernetes.io/managed-by": "ekiden",
			},
		},
		Spec: v1alpha1.ApprovalRequestSpec{
			Type: r.Key().Type,
			Call: v1alpha1.ApprovalRequestCall{
				Turn: &turn, Index: &index, Tool: r.Ask.Tool, Effect: r.Ask.Effect, Arguments: shown(r.Ask.Arguments), Digest: r.Ask.Digest,
			},
			RunRef:    v1alpha1.RunReference{Name: run.Name, UID: run.UID},
			Requester: principal,
			Policy:    r.Ask.Policy,
			Note:      contract.Clip(shown(r.Ask.Note), contract.MaxMessage),
			Pool:      r.Ask.Pool,
			Seat:      r.Seat,
			Seats:     r.Ask.Seats,
			ExpiresAt: metav1.NewTime(asked.Add(time.Duration(r.Ask.ExpiresSeconds) * time.Second).Truncate(time.Second)),
		},
	}
}

// shown is JSON that reads the same for a parser and for a person: what a screen does not show, or what changes how it shows
// the rest, is written as an escape. Such characters stand in strings only. kubectl prints no YAML that holds some of them.
func shown(arguments string) string {
	if !strings.ContainsFunc(arguments, hidden) {
		return arguments
	}
	var b strings.Builder
	for _, r := range arguments {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// hidden reports whether a character is no letter, mark, number, sign or plain space: controls of terminals and of direction,
// joiners and spaces of no or any width, tags, what is private and what is unassigned.
func hidden(r rune) bool {
	return !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r) || blank(r)
}

// blank reports whether a letter or mark is shown as nothing.
func blank(r rune) bool {
	switch r {
	case '\u034f', '\u115f', '\u1160', '\u17b4', '\u17b5', '\u2800', '\u3164', '\uffa0':
		return true
	default:
		return false
	}
}

// Same reports whether what exists is the request for r, whatever became of it: it is the run's own and about the same call
// with the same arguments. When it was first asked, and of whom, stands.
func Same(existing *v1alpha1.ApprovalRequest, run *v1alpha1.AgentRun, r lifecycle.Raise) bool {
	s := existing.Spec
	return metav1.IsControlledBy(existing, run) && s.Type == r.Key().Type && s.RunRef.UID == run.UID && s.Call.Digest == r.Ask.Digest && s.Call.Tool == r.Ask.Tool &&
		s.Call.Turn != nil && int(*s.Call.Turn) == r.Ask.Turn && s.Call.Index != nil && int(*s.Call.Index) == r.Ask.Index && s.Seat == r.Seat
}

// ordinal is the one in a name that Name has made.
func ordinal(name string) int {
	if _, digits, asked := strings.Cut(name[strings.LastIndex(name, "-")+1:], "ask"); asked {
		n, err := strconv.Atoi(digits)
		if err != nil {
			return 0
		}
		return max(n-1, 0)
	}
	_, digits, _ := strings.Cut(name[strings.LastIndex(name, "-gate")+1:], "-r")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// Read is what an existing request tells; ok is false for one that is not the run's.
func Read(existing *v1alpha1.ApprovalRequest, run *v1alpha1.AgentRun) (_ lifecycle.Request, ok bool) {
	s := existing.Spec
	if !metav1.IsControlledBy(existing, run) || s.Call.Turn == nil || s.Call.Index == nil || !existing.DeletionTimestamp.IsZero() {
		return lifecycle.Request{}, false
	}
	return lifecycle.Request{
		UID: existing.UID, Type: s.Type,
		Turn: int(*s.Call.Turn), Index: int(*s.Call.Index), Digest: s.Call.Digest, Seat: s.Seat, Ordinal: ordinal(existing.Name), Pool: s.Pool,
		Withdrawn: existing.Status.Phase == v1alpha1.ApprovalWithdrawn, Until: s.ExpiresAt.Time,
	}, true
}
