package chaos

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/ekiden-dev/ekiden/test/chaos/judge"
)

// fate is what becomes of one process of a segment.
type fate struct {
	kind fateKind
	// point is where it happens: the name of an event that the segment tells, or one of those below. It happens at the nth of
	// these, and after a delay.
	point string
	nth   int
	delay time.Duration
	// stopped is how long a process stands still that is only paused.
	stopped time.Duration
	// haunted says that a ghost comes of one that is killed.
	haunted bool
}

type fateKind string

const (
	spared  fateKind = "spared"
	killed  fateKind = judge.Kill
	zombie  fateKind = judge.Zombie // stopped until another process has taken over
	halting fateKind = "pause"      // stopped for less than a lease
)

// Points that the segment does not tell of.
const (
	started  = "Started"      // as soon as the process is seen
	instant  = "Instant"      // at a random instant
	arrived  = "ToolBegan"    // the tool server has begun a call of the run
	working  = "ToolWorks"    // some time after, while it may be working
	answered = "ToolAnswered" // the tool server is done
)

// points are where a process may be killed, as often as the weights say.
var points = []struct {
	name   string
	weight int
}{
	{started, 2},
	{instant, 4},
	{"ModelCalled", 3},
	{"ModelAnswered", 3},
	{"CallStarted", 4},
	{arrived, 4},
	{working, 4},
	{answered, 4},
	{"CallSettled", 3},
	{"CallIndeterminate", 1},
	{"ApprovalRequired", 1},
	{"Yielded", 2},
}

// mercy is after how many attempts at a segment it is left alone: a definition allows for no more than 20 crashes.
const mercy = 14

// draw is a source of chance for one thing, which the same seed and name give again.
func draw(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// fateOf says what becomes of an attempt.
func (o Options) fateOf(run string, segment, attempt int) fate {
	r := draw(o.Seed, fmt.Sprintf("%s/%d/%d", run, segment, attempt))
	switch chance := r.IntN(100); {
	case attempt >= mercy:
		return fate{kind: spared}
	case chance < o.Zombies:
		return fate{kind: zombie, point: pick(r, "ModelCalled", "CallStarted", arrived), nth: 1, delay: jitter(r, 30)}
	case chance < o.Zombies+2:
		return fate{kind: halting, point: pick(r, "ModelCalled", "CallStarted", arrived), nth: 1, stopped: time.Second + jitter(r, 20_000)}
	case chance < 85:
		return fatal(r)
	default:
		return fate{kind: spared}
	}
}

func fatal(r *rand.Rand) fate {
	total := 0
	for _, p := range points {
		total += p.weight
	}
	at := r.IntN(total)
	for _, p := range points {
		if at -= p.weight; at >= 0 {
			continue
		}
		f := fate{kind: killed, point: p.name, nth: 1 + r.IntN(3), haunted: r.IntN(haunts) == 0}
		switch p.name {
		case started, "CallIndeterminate", "ApprovalRequired", "Yielded":
			f.nth = 1
		case instant:
			f.nth, f.delay = 1, jitter(r, 2500)
		case working:
			f.delay = time.Millisecond + jitter(r, 250)
		}
		if r.IntN(2) == 0 && f.delay == 0 {
			f.delay = jitter(r, 8)
		}
		return f
	}
	panic("the weights do not add up")
}

func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func jitter(r *rand.Rand, milliseconds int) time.Duration {
	return time.Duration(r.Int64N(int64(milliseconds) * int64(time.Millisecond)))
}
