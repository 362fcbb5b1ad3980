package segment_test

import (
	"testing"
	"time"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/segment/segmenttest"
)

func TestTogether(t *testing.T) {
	story(t, "two segments in one process do not see each other's stop signal", func(t *testing.T) {
		stopped, other := segmenttest.New(t, nil), segmenttest.New(t, nil)
		stop := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			_, err := stopped.Segment(t.Context(), segmenttest.Script(segmenttest.Cut("half").Takes(20*time.Second)), stop)
			ended <- err
		}()
		go func() {
			time.Sleep(10 * time.Second)
			close(stop)
		}()
		fault, err := other.Segment(t.Context(), segmenttest.Script(segmenttest.Cut("one, ").Takes(20*time.Second), segmenttest.Says("two")), make(chan struct{}))
		if fault != nil || err != nil {
			t.Fatal(fault, err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if o := stopped.Run().Outcomes[0]; o.Yield != contract.YieldCheckpoint {
			t.Errorf("the segment that was told to stop left %+v", o)
		}
		if o := other.Run().Outcomes[0]; o.Yield != contract.YieldCompleted || o.Result != "one, two" {
			t.Errorf("the other segment left %+v", o)
		}
	})
	story(t, "segment 4 sees segment 4, whatever an older claim was told", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		for i := range 4 {
			stop := make(chan struct{})
			time.AfterFunc(time.Second, func() { close(stop) })
			if _, err := w.Segment(t.Context(), segmenttest.Script(segmenttest.Cut("x").Takes(2*time.Second)), stop); err != nil {
				t.Fatal(i, err)
			}
		}
		c, _, err := segment.Take(t.Context(), w.Store, segment.Ask{Run: w.Snapshot.Run.UID, Segment: segment.Newest, Holder: "fifth"})
		if err != nil || c.Segment != 4 || len(c.Transcript) != 4 {
			t.Errorf("the claim is on segment %d with %d entries, want 4 and 4: %v", c.Segment, len(c.Transcript), err)
		}
	})
}
