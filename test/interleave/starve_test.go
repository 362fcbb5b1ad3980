package interleave

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
	manager "github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/runtime/store/storetest"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

// Variables that make a process of this test a segment.
const (
	starvedDSN = "EKIDEN_STARVED_DSN"
	starvedRun = "EKIDEN_STARVED_RUN"
	starvedFor = "EKIDEN_STARVED_FOR"
)

// TestBeatsDoNotStarve has a process work on a run whose model uses up all of its processors, at the lowest priority. In Postgres'
// time its lease never lapses, and somebody else who tries all the time never takes the run over.
func TestBeatsDoNotStarve(t *testing.T) {
	t.Parallel()
	if os.Getenv(starvedDSN) != "" {
		ok(t, starve(t.Context()))
		return
	}
	busy := contract.BeatEvery + 5*time.Second
	if full() {
		busy = 2*contract.LeaseTTL + 5*time.Second
	}
	w := &world{Database: pgtest.New(t), namespace: types.UID(uuid.NewString())}
	w.super = pgtest.Connect(t, w.Superuser)
	_, err := w.super.PgConn().Exec(t.Context(), audit).ReadAll()
	ok(t, err)
	tenant := w.Tenant(t, w.namespace)
	w.ledger, err = manager.Open(t.Context(), w.Manager)
	ok(t, err)
	t.Cleanup(w.ledger.Close)
	s := storetest.Snapshot(w.namespace)
	run := s.Run.UID
	ok(t, w.ledger.Admit(t.Context(), ledger.Admission{Snapshot: s}))

	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBeatsDoNotStarve$", "-test.v")
	process.Env = append(os.Environ(), starvedDSN+"="+tenant, starvedRun+"="+string(run), starvedFor+"="+busy.String())
	ended := make(chan error, 1)
	go func() {
		said, err := process.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, said)
		}
		ended <- err
	}()
	rival, err := postgres.Open(t.Context(), tenant)
	ok(t, err)
	t.Cleanup(rival.Close)
	rival.SetTimes(contract.LeaseTTL, 0)
	tries := 0
	for over := false; !over; tries++ {
		select {
		case err := <-ended:
			ok(t, err)
			over = true
		case <-time.After(250 * time.Millisecond):
			if w.claimOf(t, run).Holder == nil { // it has not begun, or it is about to end
				continue
			}
			if _, _, err := rival.Claim(t.Context(), segment.Ask{Run: run, Holder: "rival"}); err == nil {
				t.Fatal("the run was taken over")
			} else if !errors.Is(err, segment.ErrBusy) && !errors.Is(err, segment.ErrOver) {
				t.Fatal(err)
			}
		}
	}
	beats, lapses := 0, 0
	for _, c := range w.auditedOf(t, run) {
		if c.What == "claims" && c.Old.Holder != nil && c.New.Holder != nil {
			beats++
			if !c.Live {
				lapses++
			}
		}
	}
	t.Logf("busy for %s: the lease was renewed %d times and had lapsed %d times; %d looks of a rival", busy, beats, lapses, tries)
	if want := int(busy / contract.BeatEvery); beats < want || lapses != 0 {
		t.Errorf("the lease was renewed %d times, want at least %d, and had lapsed %d times", beats, want, lapses)
	}
	var outcomes int
	ok(t, w.super.QueryRow(t.Context(), `SELECT count(*) FROM ekiden.outcomes WHERE run_uid = $1 AND generation = 1`, run).Scan(&outcomes))
	if outcomes != 1 {
		t.Errorf("%d outcomes of the first claim", outcomes)
	}
}

// starve is the process: a real segment with a model that computes.
func starve(ctx context.Context) error {
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19); err != nil {
		return err
	}
	busy, err := time.ParseDuration(os.Getenv(starvedFor))
	if err != nil {
		return err
	}
	store, err := postgres.Open(ctx, os.Getenv(starvedDSN))
	if err != nil {
		return err
	}
	defer store.Close()
	claim, session, err := store.Claim(ctx, segment.Ask{Run: types.UID(os.Getenv(starvedRun)), Holder: "starved"})
	if err != nil {
		return err
	}
	fault, err := (&segment.Segment{Claim: claim, Session: session, Model: thinker(busy), Emit: func(segment.Event) {}}).Run(ctx)
	if fault != nil {
		return fmt.Errorf("it left with %+v", *fault)
	}
	return err
}

// thinker is a model that computes on all processors for its time, and then answers.
type thinker time.Duration

func (d thinker) Answer(_ context.Context, _ prompt.Prompt, _ func(string)) (segment.Answer, error) {
	until := time.Now().Add(time.Duration(d))
	loops := 4 * runtime.GOMAXPROCS(0)
	done := make(chan uint64, loops)
	for range loops {
		go func() {
			x := uint64(1)
			for i := 0; i&0xffff != 0 || time.Now().Before(until); i++ {
				x = x*6364136223846793005 + 1442695040888963407
			}
			done <- x
		}()
	}
	for range loops {
		<-done
	}
	return segment.Answer{Raw: []byte(`{"role":"assistant","content":"x"}`), Text: "x", Finish: segment.FinishStop}, nil
}
