package tool_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/tool"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// TestLaw holds that the journal and the server tell the same story, whatever the server does: a call that may not be
// repeated is carried out once if anything but "it was not carried out" is told of it, and otherwise never.
func TestLaw(t *testing.T) {
	t.Parallel()
	moods := []toolserver.Mood{
		{},
		{},
		{Fail: true},
		{Act: true, Drop: "whole"},
		{Act: true, Drop: "within"},
		{Act: true, Drop: "resumable"},
		{Act: true, Status: 500},
		{Act: true, Status: 503},
		{Act: true, Status: 408},
		{Act: true, Status: 429},
		{Act: true, Status: 403, Body: "no"},
		{Act: true, Garbage: true},
		{Act: true, Redirect: "/mcp"},
		{Size: 100_000},
	}
	for flavour := range flavours {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			seed := fnv.New64a()
			_, _ = seed.Write([]byte(flavour))
			dice := rand.New(rand.NewPCG(seed.Sum64(), 1))
			r := newRig(t, flavour, nil)
			told := 0
			for i := range 60 {
				r.Behave(toolserver.Refund, moods[dice.IntN(len(moods))])
				if !r.isAPI && dice.IntN(5) == 0 {
					r.Forget(toolserver.NotFound)
				}
				if i == 55 {
					r.Quit()
				}
				j := &recorder{}
				if err := r.invoker.Make(t.Context(), r.sends(), arguments, fmt.Sprintf("key-%d", i), j); err != nil {
					t.Fatal(err)
				}
				if len(j.settled) != 1 {
					t.Fatalf("call %d is settled %d times", i, len(j.settled))
				}
				got := j.settled[0]
				if got.Code == tool.CodeUnreachable {
					continue
				}
				told++
				if j.begun != 1 {
					t.Errorf("call %d was sent without an intent: %+v", i, got)
				}
				if got.Kind == segment.ResultIndeterminate && got.Code != "" {
					t.Errorf("call %d: %+v", i, got)
				}
			}
			counts := r.Counts()
			if counts.Calls[toolserver.Refund] != told || counts.Effects != told {
				t.Errorf("the server carried out %d calls with %d effects, and %d are told", counts.Calls[toolserver.Refund], counts.Effects, told)
			}
			for key, n := range counts.Keys {
				if n != 1 {
					t.Errorf("%s was carried out %d times", key, n)
				}
			}
		})
	}
}
