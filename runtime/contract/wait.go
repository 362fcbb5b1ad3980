package contract

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

const (
	// MaxAsks is the most calls that one wait asks about. Calls run in their order: what is behind them is asked about later.
	MaxAsks = 64
	// MaxWait is the most bytes of a wait in JSON, as it is stored.
	MaxWait = 1 << 20
	// MaxSeats is the most people that have to approve one call.
	MaxSeats = 5
	// MaxExpiresSeconds is the longest that people have to decide: 30 days.
	MaxExpiresSeconds = 30 * 24 * 60 * 60
)

// Wait is what a run waits for. It goes on as soon as the first of the asks is answered: calls run in their order.
type Wait struct {
	// Cursor is the number of the newest delivery that the segment had seen when it parked. One that is newer may answer.
	Cursor int64 `json:"cursor"`
	// Asks are the calls that want a decision, in the order in which they will run: at least one, and at most MaxAsks.
	Asks []Ask `json:"asks"`
}

// Ask is one call that people have to decide on. The manager makes an ApprovalRequest of it for each seat.
type Ask struct {
	// Type is what is asked. Empty means Call: may it run?
	Type v1alpha1.ApprovalType `json:"type,omitempty"`
	// Turn and Index say which call of the run it is.
	Turn  int `json:"turn"`
	Index int `json:"index"`
	// Tool is the tool, as server/tool.
	Tool   string          `json:"tool"`
	Effect v1alpha1.Effect `json:"effect"`
	// Arguments are the canonical arguments, or empty if the approver sees only their digest.
	Arguments string `json:"arguments,omitempty"`
	Digest    string `json:"digest"`
	// Policy is the rule that asks. Zero means that the tool's effect or the definition does.
	Policy v1alpha1.ApprovalPolicyReference `json:"policy,omitzero"`
	// Note is what is out of the ordinary about the question, in a sentence, or empty.
	Note string `json:"note,omitempty"`
	Pool string `json:"pool"`
	// Seats is how many different people have to approve.
	Seats int32 `json:"seats"`
	// ExpiresSeconds is how long they have, in seconds from the outcome that holds the ask.
	ExpiresSeconds int32 `json:"expiresSeconds"`
}

var (
	poolPattern   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// Check tells what of w no segment leaves. Outcomes are written with the login of a namespace: what is made of them is bounded by
// nothing else. The arguments that are shown are those of the digest, so that nobody is asked about others than will be sent.
func (w Wait) Check() error {
	switch n := len(w.Asks); {
	case w.Cursor < 0:
		return fmt.Errorf("its cursor is %d", w.Cursor)
	case n < 1 || n > MaxAsks:
		return fmt.Errorf("it asks about %d calls, 1 to %d can be asked about", n, MaxAsks)
	}
	for i, a := range w.Asks {
		err := a.check()
		if err == nil && i > 0 && !a.behind(w.Asks[i-1]) {
			err = errors.New("its call does not come behind the one before it")
		}
		if err != nil {
			return fmt.Errorf("ask %d: %w", i, err)
		}
	}
	return nil
}

// behind reports whether the call of a comes after that of b.
func (a Ask) behind(b Ask) bool { return a.Turn > b.Turn || a.Turn == b.Turn && a.Index > b.Index }

func (a Ask) check() error {
	p := a.Policy
	switch {
	case a.Type != "" && a.Type != v1alpha1.ApprovalCall && a.Type != v1alpha1.ApprovalIndeterminate:
		return fmt.Errorf("there is no type %q", Clip(string(a.Type), 64))
	case a.Type == v1alpha1.ApprovalIndeterminate && (a.Seats != 1 || a.Effect == v1alpha1.EffectRead):
		return errors.New("what came of a call is asked of one person, and not of a call that only reads")
	case a.Turn < 0 || a.Turn > math.MaxInt32 || a.Index < 0 || a.Index > math.MaxInt32:
		return errors.New("there is no such turn or index")
	case a.Tool == "" || len(a.Tool) > 512:
		return fmt.Errorf("the name of its tool has %d bytes", len(a.Tool))
	case a.Effect != v1alpha1.EffectRead && a.Effect != v1alpha1.EffectWrite && a.Effect != v1alpha1.EffectSend:
		return fmt.Errorf("there is no effect %q", Clip(string(a.Effect), 64))
	case len(a.Arguments) > MaxShownArguments:
		return fmt.Errorf("its arguments have %d bytes, people can be shown at most %d", len(a.Arguments), MaxShownArguments)
	case !digestPattern.MatchString(a.Digest):
		return errors.New("its digest is none")
	case a.Arguments != "" && Digest([]byte(a.Arguments)) != a.Digest:
		return errors.New("its arguments are not those of its digest")
	case p != (v1alpha1.ApprovalPolicyReference{}) && (p.Namespace == "" || p.Name == "" || p.Rule == ""),
		len(p.Namespace) > 63 || len(p.Name) > 253 || len(p.Rule) > 63:
		return errors.New("its policy is none")
	case len(a.Note) > MaxMessage:
		return fmt.Errorf("its note has %d bytes", len(a.Note))
	case len(a.Pool) > 63 || !poolPattern.MatchString(a.Pool):
		return errors.New("the name of its pool is none")
	case a.Seats < 1 || a.Seats > MaxSeats:
		return fmt.Errorf("it has %d seats, there are 1 to %d", a.Seats, MaxSeats)
	case a.ExpiresSeconds < 1 || a.ExpiresSeconds > MaxExpiresSeconds:
		return fmt.Errorf("it expires after %d seconds", a.ExpiresSeconds)
	}
	return nil
}

// Delivery is what was decided on one seat of a call. There is one for each ApprovalRequest that was answered or has expired.
type Delivery struct {
	// Seq orders the deliveries of a run. It rises, perhaps with gaps.
	Seq int64 `json:"seq"`
	// Type is what was asked. Empty means Call.
	Type v1alpha1.ApprovalType `json:"type,omitempty"`
	// Request is the UID of the ApprovalRequest.
	Request types.UID `json:"request"`
	Turn    int       `json:"turn"`
	Index   int       `json:"index"`
	Digest  string    `json:"digest"`
	Seat    int32     `json:"seat"`
	// Seats is how many seats the call had when it was asked about.
	Seats int32 `json:"seats"`
	// Phase is Approved, Denied or Expired, or for the type Indeterminate Happened, NotHappened, Retry or Expired.
	Phase v1alpha1.ApprovalPhase `json:"phase"`
	// By is who decided, Reason what they said. Empty for Expired.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Answer is what the deliveries of a run say about one call.
type Answer struct {
	// Phase is Approved once every seat has approved, Denied or Expired as soon as one says so, else Pending.
	Phase v1alpha1.ApprovalPhase
	// By are who approved, or the one who denied. Reason is theirs.
	By     []string
	Reason string
	// Requests are the requests that the answer rests on.
	Requests []types.UID
	// Seats is how many have to approve, Open the seats that nobody has decided on.
	Seats int32
	Open  []int32
}

// Answered reads what was decided on a call with these very arguments. Nothing that was decided on others counts. seats is how
// many have to approve if nobody has approved yet: what the question asked for that somebody has approved stands, so that a policy
// that changes meanwhile does not ask again. A denial stands, also behind a seat that expired. Every seat counts once, however often
// its approval is delivered. There are never more than MaxSeats.
func Answered(ds []Delivery, turn, index int, digest string, seats int32) Answer {
	a := Answer{Phase: v1alpha1.ApprovalPending, Seats: min(max(seats, 1), MaxSeats)}
	taken, asked := map[int32]bool{}, int32(0)
	var expired *Delivery
	for _, d := range ds {
		if d.Type == v1alpha1.ApprovalIndeterminate || d.Turn != turn || d.Index != index || d.Digest != digest {
			continue
		}
		switch d.Phase {
		case v1alpha1.ApprovalApproved:
			if d.Seat < 1 || d.Seat > d.Seats || d.Seats > MaxSeats {
				continue
			}
			asked = max(asked, d.Seats)
			if taken[d.Seat] {
				continue
			}
			taken[d.Seat] = true
			a.By, a.Requests = append(a.By, d.By), append(a.Requests, d.Request)
		case v1alpha1.ApprovalDenied:
			return stopped(d)
		case v1alpha1.ApprovalExpired:
			expired = cmp.Or(expired, &d)
		default: // of a later version: it answers nothing
		}
	}
	if expired != nil {
		return stopped(*expired)
	}
	if len(taken) > 0 {
		a.Seats = asked
	}
	for seat := int32(1); seat <= a.Seats; seat++ {
		if !taken[seat] {
			a.Open = append(a.Open, seat)
		}
	}
	if len(a.Open) == 0 {
		a.Phase = v1alpha1.ApprovalApproved
	}
	return a
}

// stopped is the answer of one that stands against the call.
func stopped(d Delivery) Answer {
	return Answer{Phase: d.Phase, By: by(d), Reason: d.Reason, Requests: []types.UID{d.Request}}
}

func by(d Delivery) []string {
	if d.By == "" {
		return nil
	}
	return []string{d.By}
}

// Resolved is the newest word about what came of a call with these very arguments, if there is one.
func Resolved(ds []Delivery, turn, index int, digest string) (newest Delivery, said bool) {
	for _, d := range ds {
		if d.Type != v1alpha1.ApprovalIndeterminate || d.Turn != turn || d.Index != index || d.Digest != digest || said && d.Seq < newest.Seq {
			continue
		}
		switch d.Phase {
		case v1alpha1.ApprovalHappened, v1alpha1.ApprovalNotHappened, v1alpha1.ApprovalRetry, v1alpha1.ApprovalExpired:
			newest, said = d, true
		default: // of a later version: it answers nothing
		}
	}
	return newest, said
}

// Answer is what the deliveries say about one of the asks. What came of a call may be asked again, after it was made again: then
// only what the parked segment had not seen is an answer.
func (w Wait) Answer(a Ask, ds []Delivery) Answer {
	if a.Type != v1alpha1.ApprovalIndeterminate {
		return Answered(ds, a.Turn, a.Index, a.Digest, a.Seats)
	}
	d, said := Resolved(ds, a.Turn, a.Index, a.Digest)
	if !said || d.Seq <= w.Cursor {
		return Answer{Phase: v1alpha1.ApprovalPending, Seats: 1, Open: []int32{1}}
	}
	return Answer{Phase: d.Phase, By: by(d), Reason: d.Reason, Requests: []types.UID{d.Request}, Seats: 1}
}

// Seen reports whether the parked segment had seen what was decided on the request: it was no answer to what is asked now.
func (w Wait) Seen(ds []Delivery, request types.UID) bool {
	return slices.ContainsFunc(ds, func(d Delivery) bool { return d.Request == request && d.Seq <= w.Cursor })
}

// Over reports whether the wait is over: a delivery that the parked segment had not seen has answered the first ask.
func (w Wait) Over(ds []Delivery) bool {
	if len(w.Asks) == 0 {
		return true
	}
	if w.Answer(w.Asks[0], ds).Phase == v1alpha1.ApprovalPending {
		return false
	}
	for _, d := range ds {
		if d.Seq > w.Cursor {
			return true
		}
	}
	return false
}
