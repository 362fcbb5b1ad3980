package sim

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
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
	n, base := schedules(t), rand.Uint64()>>16
	t.Logf("%d schedules, half of them from seed 0 on and half from seed %d on", n, base)
	began, steps := time.Now(), 0
	var room []uint64
	for i := range uint64(n) {
		seed := i
		if i >= uint64(n/2) {
			seed = base + i
		}
		s := seeded(seed, room)
		room = s.Steps
		law, taken := play(s, Bugs{}, nil)
		if steps += taken; law != "" {
			t.Fatal(explain(seed, law, Bugs{}))
		}
	}
	took := time.Since(began).Seconds()
	t.Logf("%.0f schedules/s, %.0f steps each", float64(n)/took, float64(steps)/float64(n))
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
