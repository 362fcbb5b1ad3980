package sim

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var replay = flag.String("seed", os.Getenv("EKIDEN_SEED"), "the one seed to play, with its trace")

const (
	// inPassing is how many schedules a plain go test plays, inFull how many EKIDEN_GATES=full does.
	inPassing = 4_000
	inFull    = 1_000_000
)

// TestSimulation plays schedules until a law is broken or there are enough. A part of them is always the same, and the rest starts
// at a seed that is printed.
func TestSimulation(t *testing.T) {
	t.Parallel()
	if *replay != "" {
		seed, err := strconv.ParseUint(*replay, 10, 64)
		if err != nil {
			t.Fatalf("-seed: %v", err)
		}
		var trace strings.Builder
		law, _ := play(Seeded(seed), Bugs{}, &trace)
		t.Logf("seed %d\n%s", seed, trace.String())
		if law != "" {
			t.Error(explain(seed, law, Bugs{}))
		}
		return
	}
	n, base := uint64(schedules(t)), rand.Uint64()>>16
	t.Logf("%d schedules, half of them from seed 0 on and half from seed %d on", n, base)
	began, before := time.Now(), cpu()
	var (
		next atomic.Uint64
		all  sync.WaitGroup
		mu   sync.Mutex
		sum  tally
	)
	for range runtime.GOMAXPROCS(0) { // each history is one thread's; there are several histories
		all.Go(func() {
			var room []uint64
			var own tally
			for i := next.Add(1) - 1; i < n && !t.Failed(); i = next.Add(1) - 1 {
				seed := i
				if i >= n/2 {
					seed = base + i
				}
				s := seeded(seed, room)
				room = s.Steps
				law, so := play(s, Bugs{}, nil)
				if own.add(so); law != "" {
					t.Error(explain(seed, law, Bugs{}))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			sum.add(own)
		})
	}
	all.Wait()
	t.Logf("in all: %+v", sum)
	t.Logf("%.0f schedules/s, and %.0f for each second of processor time; %.0f steps each",
		float64(n)/time.Since(began).Seconds(), float64(n)/(cpu()-before), float64(sum.steps)/float64(n))
}

// cpu is the processor time of this process so far, in seconds.
func cpu() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// schedules is how many to play.
func schedules(t *testing.T) int {
	t.Helper()
	n := inPassing
	if os.Getenv("EKIDEN_GATES") == "full" {
		n = inFull
	}
	if said := os.Getenv("EKIDEN_SIM_SCHEDULES"); said != "" {
		var err error
		if n, err = strconv.Atoi(said); err != nil {
			t.Fatalf("EKIDEN_SIM_SCHEDULES: %v", err)
		}
	}
	return n
}

// explain tells of a broken law, with the smallest trace that was found.
func explain(seed uint64, law string, bugs Bugs) string {
	kind, _, _ := strings.Cut(law, ":")
	s := shrink(Seeded(seed), func(s Schedule) bool {
		broken, _ := play(s, bugs, nil)
		return strings.HasPrefix(broken, kind)
	})
	var trace strings.Builder
	play(s, bugs, &trace)
	return fmt.Sprintf("seed %d breaks a law: %s\nthe smallest trace found, of %d steps:\n%s\nplay the whole: go test ./test/sim -run TestSimulation -seed=%d -v",
		seed, law, len(s.Steps), trace.String(), seed)
}

// TestTracesAreTheSame plays seeds twice: what is not the same to the byte cannot be replayed.
func TestTracesAreTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		var digests [2][32]byte
		for i := range digests {
			var trace strings.Builder
			play(Seeded(seed), Bugs{}, &trace)
			digests[i] = sha256.Sum256([]byte(trace.String()))
		}
		if digests[0] != digests[1] {
			t.Errorf("seed %d has two traces", seed)
		}
	}
}

// TestShrink makes the schedule that shows a planted bug smaller: it has to show the same bug still.
func TestShrink(t *testing.T) {
	t.Parallel()
	bugs := Bugs{SettleFirst: true}
	breaks := func(s Schedule) bool {
		law, _ := play(s, bugs, nil)
		return strings.HasPrefix(law, "a call is answered only if its tool has answered")
	}
	for seed := range uint64(100) {
		s := Seeded(seed)
		if !breaks(s) {
			continue
		}
		small := shrink(s, breaks)
		if !breaks(small) || !zero(small.Steps) {
			t.Errorf("seed %d: nothing bad has to happen for this bug, and %d steps are left of %d: %v", seed, len(small.Steps), len(s.Steps), small.Steps)
		}
		return
	}
	t.Error("no seed shows the bug")
}
