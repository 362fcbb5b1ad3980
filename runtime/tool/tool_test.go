package tool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// came is what came of a call.
type came struct {
	Kind segment.ResultKind
	Code string
	// Begun says that there was an intent, Calls how often the server carried the call out, Asked how often it was asked to.
	Begun        int
	Calls, Asked int
}

// TestOutcomes holds the rules of the journal: what is settled, what is made again, and what nobody knows. Each row is
// true of each flavour of a server.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	reads, keyed, sends := (*rig).reads, (*rig).keyed, (*rig).sends
	rows := map[string]struct {
		given func(*rig) v1alpha1.CompiledTool
		mood  toolserver.Mood
		want  came
		says  string
	}{
		"an answer settles":                                           {reads, toolserver.Mood{}, came{segment.ResultAnswered, "", 1, 1, 1}, "Ada Lovelace"},
		"an answer to a call that sends settles":                      {sends, toolserver.Mood{}, came{segment.ResultAnswered, "", 1, 1, 1}, `"refund":"R-1"`},
		"a tool that says that it failed has failed":                  {sends, toolserver.Mood{Fail: true}, came{segment.ResultFailed, "ToolFailed", 1, 1, 1}, "no such order"},
		"a request that is refused has failed, and is not made again": {reads, toolserver.Mood{Status: 403}, came{segment.ResultFailed, "ToolFailed", 1, 0, 1}, "does not accept the key"},
		"an error of the protocol is an answer":                       {sends, toolserver.Mood{Problem: "no such order"}, came{segment.ResultFailed, "ToolFailed", 1, 0, 1}, "no such order"},
		"so is one that comes with a status and names its request":    {sends, toolserver.Mood{Problem: "no such order", Status: 404}, came{segment.ResultFailed, "ToolFailed", 1, 0, 1}, "404 Not Found: no such order"},
		"a rate limit is an answer":                                   {reads, toolserver.Mood{Status: 429, Body: "slow down"}, came{segment.ResultFailed, "ToolFailed", 1, 0, 1}, "429 Too Many Requests"},
		"a redirect is an answer, and is not followed":                {reads, toolserver.Mood{Redirect: "http://example.invalid/"}, came{segment.ResultFailed, "ToolFailed", 1, 0, 1}, "a redirect, which is not followed"},

		"a read whose connection breaks is made again": {reads, toolserver.Mood{Times: 2, Act: true, Drop: "whole"}, came{segment.ResultAnswered, "", 1, 3, 3}, "Ada Lovelace"},
		"a read that never gets an answer has failed":  {reads, toolserver.Mood{Act: true, Drop: "whole"}, came{segment.ResultFailed, "NoAnswer", 1, 3, 3}, "The call has no result: the connection was lost"},
		"a read is made again after 500":               {reads, toolserver.Mood{Times: 1, Status: 500}, came{segment.ResultAnswered, "", 1, 1, 2}, "Ada Lovelace"},
		"a read is made again after 408":               {reads, toolserver.Mood{Times: 1, Status: 408}, came{segment.ResultAnswered, "", 1, 1, 2}, "Ada Lovelace"},

		"a call with a key is made again with the same key":            {keyed, toolserver.Mood{Times: 2, Act: true, Drop: "whole"}, came{segment.ResultAnswered, "", 1, 3, 3}, `"refund":"R-1"`},
		"a call with a key that never gets an answer is indeterminate": {keyed, toolserver.Mood{Act: true, Drop: "whole"}, came{segment.ResultIndeterminate, "", 1, 3, 3}, "its outcome is unknown"},
		"a call with a key is made again after 503":                    {keyed, toolserver.Mood{Times: 1, Act: true, Status: 503}, came{segment.ResultAnswered, "", 1, 2, 2}, `"refund":"R-1"`},

		"a call whose connection breaks is indeterminate at once":                          {sends, toolserver.Mood{Act: true, Drop: "whole"}, came{segment.ResultIndeterminate, "", 1, 1, 1}, "do not repeat it before you have checked"},
		"a call whose answer is cut is indeterminate":                                      {sends, toolserver.Mood{Act: true, Drop: "within"}, came{segment.ResultIndeterminate, "", 1, 1, 1}, "Assume neither"},
		"a call whose answer is cut after an event that could be resumed is indeterminate": {sends, toolserver.Mood{Act: true, Drop: "resumable"}, came{segment.ResultIndeterminate, "", 1, 1, 1}, "Assume neither"},
		"a call that is answered 500 is indeterminate":                                     {sends, toolserver.Mood{Act: true, Status: 500}, came{segment.ResultIndeterminate, "", 1, 1, 1}, "500 Internal Server Error"},
		"a call that is answered 408 is indeterminate":                                     {sends, toolserver.Mood{Act: true, Status: 408}, came{segment.ResultIndeterminate, "", 1, 1, 1}, "408 Request Timeout"},
		"a call that is answered 504 is indeterminate although nothing was done":           {sends, toolserver.Mood{Status: 504}, came{segment.ResultIndeterminate, "", 1, 0, 1}, "its outcome is unknown"},
	}
	for flavour := range flavours {
		for name, row := range rows {
			t.Run(flavour+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, flavour, nil)
				given := row.given(r)
				r.Behave(given.Tool, row.mood)
				if err := r.make(t.Context(), given); err != nil {
					t.Fatal(err)
				}
				r.want(t, given.Tool, row.want, row.says)
			})
		}
	}
}

// want checks what came of the call, and that its text is told within its bound.
func (r *rig) want(t *testing.T, name string, want came, says string) {
	t.Helper()
	if len(r.settled) != 1 {
		t.Fatalf("settled %d times: %+v", len(r.settled), r.settled)
	}
	got := r.settled[0]
	counts := r.Counts()
	if diff := cmp.Diff(want, came{got.Kind, got.Code, r.begun, counts.Calls[name], counts.Requests[name]}); diff != "" {
		t.Errorf("%s\nit said %q", diff, got.Text)
	}
	if !strings.Contains(got.Text, says) {
		t.Errorf("it said %q, and not %q", got.Text, says)
	}
	if counts.Streams != 0 {
		t.Errorf("%d streams were opened", counts.Streams)
	}
	if len(counts.Keys) > 1 {
		t.Errorf("the call went out with several keys: %v", counts.Keys)
	}
}

// TestRedirects holds what follows from a redirect, which is not followed: after a POST it often means that the call was
// carried out and that its result stands elsewhere.
func TestRedirects(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		given func(*rig) v1alpha1.CompiledTool
		want  came
		says  string
	}{
		"of a read is an answer":                                     {(*rig).reads, came{segment.ResultFailed, "ToolFailed", 1, 1, 1}, ""},
		"of a call that writes leaves it open":                       {(*rig).writes, came{segment.ResultIndeterminate, "", 1, 1, 1}, "its outcome is unknown"},
		"of a call that sends leaves it open":                        {(*rig).sends, came{segment.ResultIndeterminate, "", 1, 1, 1}, "its outcome is unknown"},
		"of a call with a key leaves it open, and is not made again": {(*rig).keyed, came{segment.ResultIndeterminate, "", 1, 1, 1}, "its outcome is unknown"},
	}
	for flavour := range flavours {
		for name, row := range rows {
			for _, status := range []int{301, 302, 303, 307, 308} {
				t.Run(fmt.Sprintf("%s/%d/%s", flavour, status, name), func(t *testing.T) {
					t.Parallel()
					r := newRig(t, flavour, nil)
					given := row.given(r)
					r.Behave(given.Tool, toolserver.Mood{Act: true, Redirect: "/elsewhere", Status: status})
					if err := r.make(t.Context(), given); err != nil {
						t.Fatal(err)
					}
					r.want(t, given.Tool, row.want, row.says)
					if text := r.settled[0].Text; !strings.Contains(text, fmt.Sprintf("a redirect, which is not followed (%d ", status)) || strings.Contains(text, "elsewhere") {
						t.Errorf("it said %q", text)
					}
				})
			}
		}
	}
}

// TestNoLongerWanted holds what becomes of a call whose intent stands when the run is cancelled or the policy changes
// between two tries.
func TestNoLongerWanted(t *testing.T) {
	t.Parallel()
	const cancelled, changed = "and it was not tried again because the run was cancelled", "and it was not tried again because the policy has changed"
	lost := toolserver.Mood{Act: true, Drop: "whole"}
	rows := map[string]struct {
		given    func(*rig) v1alpha1.CompiledTool
		mood     toolserver.Mood
		down     bool // when the intent is written; up again before the next try
		unwanted error
		want     came
		says     string
	}{
		"a server that comes up after the cancel was acknowledged gets no request": {
			(*rig).sends, toolserver.Mood{}, true, segment.ErrCancelled, came{segment.ResultFailed, "Unreachable", 1, 0, 0}, "The call was not carried out: nothing was sent: the server refused the connection, " + cancelled,
		},
		"nor does it after the policy has changed": {
			(*rig).sends, toolserver.Mood{}, true, segment.ErrPolicyChanged, came{segment.ResultFailed, "Unreachable", 1, 0, 0}, changed,
		},
		"nor one that honours keys": {
			(*rig).keyed, toolserver.Mood{}, true, segment.ErrCancelled, came{segment.ResultFailed, "Unreachable", 1, 0, 0}, cancelled,
		},
		"nor one that is read": {
			(*rig).reads, toolserver.Mood{}, true, segment.ErrPolicyChanged, came{segment.ResultFailed, "Unreachable", 1, 0, 0}, changed,
		},
		"a server that comes up while the call is wanted gets it": {
			(*rig).sends, toolserver.Mood{}, true, nil, came{segment.ResultAnswered, "", 1, 1, 1}, "R-1",
		},
		"a read that got no answer is not made again": {
			(*rig).reads, lost, false, segment.ErrCancelled, came{segment.ResultFailed, "NoAnswer", 1, 1, 1}, cancelled,
		},
		"a call with a key that got no answer is indeterminate after a cancel": {
			(*rig).keyed, lost, false, segment.ErrCancelled, came{segment.ResultIndeterminate, "", 1, 1, 1}, cancelled,
		},
		"and after a change of the policy": {
			(*rig).keyed, lost, false, segment.ErrPolicyChanged, came{segment.ResultIndeterminate, "", 1, 1, 1}, changed,
		},
		"the first try needs no question: the intent has asked": {
			(*rig).sends, toolserver.Mood{}, false, segment.ErrCancelled, came{segment.ResultAnswered, "", 1, 1, 1}, "R-1",
		},
		"a call that may not be made again says nothing of it": {
			(*rig).sends, lost, false, segment.ErrCancelled, came{segment.ResultIndeterminate, "", 1, 1, 1}, "before a whole answer had come. It may",
		},
	}
	for flavour := range flavours {
		for name, row := range rows {
			t.Run(flavour+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, flavour, nil)
				given := row.given(r)
				r.Behave(given.Tool, row.mood)
				r.unwanted = row.unwanted
				if row.down {
					r.onBegin, r.onWanted = r.Quit, sync.OnceFunc(r.Return)
				}
				if err := r.make(t.Context(), given); err != nil {
					t.Fatal(err)
				}
				r.want(t, given.Tool, row.want, row.says)
			})
		}
	}
	for flavour, o := range flavours {
		if flavour == api || o.Stateless {
			continue
		}
		t.Run(flavour+"/a call that a lost session has turned away is not made again", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, flavour, nil)
			r.onBegin = func() { r.Forget(toolserver.NotFound) }
			r.unwanted = segment.ErrCancelled
			if err := r.make(t.Context(), r.sends()); err != nil {
				t.Fatal(err)
			}
			r.want(t, toolserver.Refund, came{segment.ResultFailed, "Unreachable", 1, 0, 1}, cancelled)
		})
	}
}

func TestATimeoutLeavesTheOutcomeOpen(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		given func(*rig) v1alpha1.CompiledTool
		want  came
	}{
		"of a read":              {(*rig).reads, came{segment.ResultFailed, "NoAnswer", 1, 1, 1}},
		"of a call with a key":   {(*rig).keyed, came{segment.ResultIndeterminate, "", 1, 1, 1}},
		"of a call without keys": {(*rig).sends, came{segment.ResultIndeterminate, "", 1, 1, 1}},
	}
	for flavour := range flavours {
		for name, row := range rows {
			t.Run(flavour+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, flavour, nil)
				given := row.given(r)
				given.TimeoutSeconds = 1
				r.Behave(given.Tool, toolserver.Mood{Act: true, Hang: true})
				if err := r.make(t.Context(), given); err != nil {
					t.Fatal(err)
				}
				r.want(t, given.Tool, row.want, "no whole answer came in time")
			})
		}
	}
}

// TestNothingSent holds what is said of calls that never left.
func TestNothingSent(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		change func(*v1alpha1.CompiledServer)
		says   string
	}{
		"nobody listens": {
			func(s *v1alpha1.CompiledServer) { s.URL = "http://127.0.0.1:1/mcp" }, "nothing was sent: the server refused the connection",
		},
		"the name is not known": {
			func(s *v1alpha1.CompiledServer) { s.URL = "http://no-such-host.invalid/mcp" }, "nothing was sent: the name of the server",
		},
		"the address may not be dialled": {
			func(s *v1alpha1.CompiledServer) { s.Egress = v1alpha1.Egress{} }, "the platform does not let this server be dialled",
		},
		"the server does not speak TLS": {
			func(s *v1alpha1.CompiledServer) { s.URL = strings.Replace(s.URL, "http:", "https:", 1) }, "nothing was sent: the server does not speak TLS",
		},
	}
	for flavour := range flavours {
		for name, row := range rows {
			t.Run(flavour+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, flavour, row.change)
				if err := r.make(t.Context(), r.sends()); err != nil {
					t.Fatal(err)
				}
				begun := 0
				if r.isAPI {
					begun = 1 // An API is not asked before the call.
				}
				r.want(t, toolserver.Refund, came{segment.ResultFailed, "Unreachable", begun, 0, 0}, row.says)
				if text := r.settled[0].Text; strings.Contains(text, "127.0.0.1") || strings.Contains(text, "dial tcp") {
					t.Errorf("it names what nobody needs to know: %q", text)
				}
			})
		}
	}
}

func TestBeforeTheIntent(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		key   string // as it is mounted; empty is not mounted
		given func(*rig)
		want  string
	}{
		"a key that is not there is a fault that names it": {
			"", nil, `SecretMissing: Secret "crm-key" has no key "token" in this namespace, or it is empty: create it`,
		},
		"so is an empty one": {
			" \n", nil, `SecretMissing: Secret "crm-key" has no key "token" in this namespace, or it is empty: create it`,
		},
		"and one that cannot travel": {
			"a\x01b", nil, `SecretMissing: key "token" of Secret "crm-key" cannot be used: it cannot be sent in a header: it holds control characters`,
		},
		"an intent that is refused is told as it is": {
			secret, func(r *rig) { r.refuse = segment.ErrPolicyChanged }, segment.ErrPolicyChanged.Error(),
		},
	}
	for flavour := range flavours {
		for name, row := range rows {
			t.Run(flavour+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, flavour, nil)
				r.mount(t, row.key)
				if row.given != nil {
					row.given(r)
				}
				err := r.make(t.Context(), r.sends())
				if err == nil || err.Error() != row.want {
					t.Errorf("got %v, want %v", err, row.want)
				}
				if c := r.Counts(); r.begun != 0 || len(r.settled) != 0 || c.Requests[toolserver.Refund] != 0 {
					t.Errorf("begun %d, settled %v, asked %d", r.begun, r.settled, c.Requests[toolserver.Refund])
				}
			})
		}
	}
}

// TestThePodGoes holds what happens when the pod's grace ends in the middle of a call.
func TestThePodGoes(t *testing.T) {
	t.Parallel()
	gone := errors.New("the pod is gone")
	rows := map[string]struct {
		given func(*rig) v1alpha1.CompiledTool
		// sent says that the server has the call when the pod goes.
		sent bool
		want error
		came came
		says string
	}{
		"a read is left to the next attempt":                           {(*rig).reads, true, gone, came{}, ""},
		"so is a call with a key":                                      {(*rig).keyed, true, gone, came{}, ""},
		"a call that was sent is indeterminate":                        {(*rig).sends, true, nil, came{segment.ResultIndeterminate, "", 1, 1, 1}, "its outcome is unknown"},
		"a call that was begun and not sent has failed, and says so":   {(*rig).sends, false, nil, came{segment.ResultFailed, "Unreachable", 1, 0, 0}, "nothing was sent"},
		"a read that was begun and not sent is left to the next too":   {(*rig).reads, false, gone, came{}, ""},
		"a call with a key that was not sent is left to the next, too": {(*rig).keyed, false, gone, came{}, ""},
	}
	for flavour := range flavours {
		for name, row := range rows {
			t.Run(flavour+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, flavour, nil)
				given := row.given(r)
				r.Behave(given.Tool, toolserver.Mood{Act: true, Hang: true})
				ctx, end := context.WithCancelCause(t.Context())
				defer end(nil)
				if row.sent {
					r.OnCall(func(string) { end(gone) })
				} else {
					r.onBegin = func() { end(gone) }
				}
				if err := r.make(ctx, given); !errors.Is(err, row.want) {
					t.Fatalf("got %v, want %v", err, row.want)
				}
				if row.want == nil {
					r.want(t, given.Tool, row.came, row.says)
				} else if len(r.settled) > 0 {
					t.Errorf("settled: %v", r.settled)
				}
			})
		}
	}
}

func TestDoubtOutlivesTriesThatDidNothing(t *testing.T) {
	t.Parallel()
	for flavour := range flavours {
		t.Run(flavour+"/a server that goes down after it has acted", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, flavour, nil)
			r.Behave(toolserver.Refund, toolserver.Mood{Act: true, Drop: "whole"})
			r.OnCall(func(string) { r.Quit() })
			if err := r.make(t.Context(), r.keyed()); err != nil {
				t.Fatal(err)
			}
			r.want(t, toolserver.Refund, came{segment.ResultIndeterminate, "", 1, 1, 1}, "the connection was lost")
		})
		t.Run(flavour+"/an attempt that is gone, and now its server too", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, flavour, nil)
			r.resumed = true
			r.Quit()
			if err := r.make(t.Context(), r.keyed()); err != nil {
				t.Fatal(err)
			}
			begun := 0
			if r.isAPI {
				begun = 1
			}
			r.want(t, toolserver.Refund, came{Kind: segment.ResultIndeterminate, Begun: begun}, "an earlier attempt may have sent it")
		})
		t.Run(flavour+"/an attempt that is gone, and now the tool is another", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, flavour, nil)
			if r.isAPI {
				t.Skip("an API is not asked what its tools are")
			}
			r.resumed = true
			r.Withdraw(toolserver.Refund)
			r.wantEnd(t, r.make(t.Context(), r.keyed()), "no longer offers")
			r.want(t, toolserver.Refund, came{Kind: segment.ResultIndeterminate}, "an earlier attempt may have sent it")
		})
		t.Run(flavour+"/an attempt that is gone", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, flavour, nil)
			r.resumed = true
			r.onBegin = r.Quit
			if err := r.make(t.Context(), r.keyed()); err != nil {
				t.Fatal(err)
			}
			r.want(t, toolserver.Refund, came{Kind: segment.ResultIndeterminate, Begun: 1}, "an earlier attempt may have sent it")
		})
	}
}

func TestContracts(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		given func(*toolserver.Server)
		says  string
	}{
		"a tool with another description": {
			func(s *toolserver.Server) { s.Describe(toolserver.Refund, "Pay anybody.") }, `server crm offers the tool "refund" with another contract`,
		},
		"a tool that is gone": {
			func(s *toolserver.Server) { s.Withdraw(toolserver.Refund) }, `server crm no longer offers the tool "refund"`,
		},
		"a tool that is offered twice": {
			func(s *toolserver.Server) {
				s.List(func(string) ([]any, string) {
					one := map[string]any{"name": toolserver.Refund, "description": toolserver.Descriptions[toolserver.Refund], "inputSchema": contractSchema()}
					return []any{one, one}, ""
				})
			}, "another contract",
		},
	}
	for flavour := range flavours {
		if flavour == api {
			continue
		}
		for name, row := range rows {
			t.Run(flavour+"/"+name+" ends the run before anything is sent", func(t *testing.T) {
				t.Parallel()
				r := newRig(t, flavour, nil)
				row.given(r.Server)
				r.wantEnd(t, r.make(t.Context(), r.sends()), row.says)
				if r.begun != 0 || len(r.settled) != 0 {
					t.Errorf("begun %d, settled %v", r.begun, r.settled)
				}
				if err := r.make(t.Context(), r.reads()); name != "a tool that is offered twice" && err != nil {
					t.Errorf("another tool cannot be called: %v", err)
				}
			})
			t.Run(flavour+"/"+name+" by a new session is settled first", func(t *testing.T) {
				t.Parallel()
				r := newRig(t, flavour, nil)
				if flavours[flavour].Stateless {
					t.Skip("there is no session to lose")
				}
				r.onBegin = func() { row.given(r.Server); r.Forget(toolserver.NotFound) }
				r.wantEnd(t, r.make(t.Context(), r.sends()), row.says)
				r.want(t, toolserver.Refund, came{segment.ResultFailed, "Unreachable", 1, 0, 1}, "nothing was sent")
			})
		}
	}
}

func (r *rig) wantEnd(t *testing.T, err error, says string) {
	t.Helper()
	var end *segment.EndError
	if !errors.As(err, &end) || end.Code != v1alpha1.ReasonContractChanged || !strings.Contains(end.Message, says) || !strings.Contains(end.Message, "spec.release") {
		t.Fatalf("got %v, want %s", err, says)
	}
	if c := r.Counts(); c.Calls[toolserver.Refund] != 0 {
		t.Errorf("it was called: %+v", c)
	}
}

// TestLostSessions holds what follows when a server has forgotten its sessions, as after a restart.
func TestLostSessions(t *testing.T) {
	t.Parallel()
	type given struct {
		how  toolserver.Amnesia
		tool func(*rig) v1alpha1.CompiledTool
	}
	rows := map[string]struct {
		given given
		want  came
		says  string
	}{
		"a call turned away by 404 was not carried out, and is made again": {given{toolserver.NotFound, (*rig).sends}, came{segment.ResultAnswered, "", 1, 1, 2}, "R-1"},
		"so is one turned away in JSON":                                    {given{toolserver.NotFoundJSON, (*rig).sends}, came{segment.ResultAnswered, "", 1, 1, 2}, "R-1"},
		"a read turned away by 400 is made again":                          {given{toolserver.BadRequest, (*rig).reads}, came{segment.ResultAnswered, "", 1, 1, 2}, "Ada"},
		"so is a call with a key":                                          {given{toolserver.BadRequest, (*rig).keyed}, came{segment.ResultAnswered, "", 1, 1, 2}, "R-1"},
		"any other call turned away by 400 was refused":                    {given{toolserver.BadRequest, (*rig).sends}, came{segment.ResultFailed, "ToolFailed", 1, 0, 1}, "The call was refused"},
	}
	for flavour, o := range flavours {
		if flavour == api || o.Stateless {
			continue
		}
		for name, row := range rows {
			t.Run(flavour+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, flavour, nil)
				tool := row.given.tool(r)
				r.onBegin = func() { r.Forget(row.given.how) }
				if err := r.make(t.Context(), tool); err != nil {
					t.Fatal(err)
				}
				r.want(t, tool.Tool, row.want, row.says)

				// Whatever came of it, the next call has a new session.
				r.recorder = &recorder{}
				if err := r.make(t.Context(), tool); err != nil || r.settled[0].Kind != segment.ResultAnswered {
					t.Errorf("the next call: %v, %v", err, r.settled)
				}
			})
		}
	}
}

func TestOneSessionPerServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, "an MCP server with sessions", nil)
	for range 3 {
		if err := r.make(t.Context(), r.reads()); err != nil {
			t.Fatal(err)
		}
	}
	lists := 0
	for _, req := range r.Requests() {
		if req.Method == "tools/list" {
			lists++
		}
	}
	if c := r.Counts(); c.Sessions != 1 || lists != 1 {
		t.Errorf("%d sessions, %d lists", c.Sessions, lists)
	}
}

func TestAKeyThatIsRotatedIsTakenUp(t *testing.T) {
	t.Parallel()
	for flavour := range flavours {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			r := rigOn(t, toolserver.Start(t, flavours[flavour]), flavour == api, nil)
			r.Behave(toolserver.GetCustomer, toolserver.Mood{Echo: true})
			sent := func() (last string) {
				t.Helper()
				if err := r.make(t.Context(), r.reads()); err != nil {
					t.Fatal(err)
				}
				for _, req := range r.Requests() {
					if req.Tool != "" {
						last = req.Header.Get("Authorization")
					}
				}
				return last
			}
			if got := sent(); got != "Bearer "+secret {
				t.Errorf("it sent %q", got)
			}
			r.mount(t, "rotated-key")
			if got := sent(); got != "Bearer rotated-key" {
				t.Errorf("then it sent %q", got)
			}
			for _, settled := range r.settled {
				if settled.Text != "you sent Bearer [redacted]" {
					t.Errorf("it said %q", settled.Text)
				}
			}
		})
	}
}

func TestKeysGoOutWithEachCall(t *testing.T) {
	t.Parallel()
	for flavour := range flavours {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, flavour, nil)
			if err := r.make(t.Context(), r.sends()); err != nil {
				t.Fatal(err)
			}
			for _, req := range r.Requests() {
				key := req.Header.Get("Idempotency-Key")
				if (key == "key-1") != (req.Tool != "") {
					t.Errorf("%s %s carried the key %q", req.URI, req.Method, key)
				}
				if req.Tool != "" && !r.isAPI && !strings.Contains(string(req.Body), `"ekiden.dev/idempotency-key":"key-1"`) {
					t.Errorf("the message has no key: %s", req.Body)
				}
			}
		})
	}
}

// TestSizes holds what of a result is shown.
func TestSizes(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		mood toolserver.Mood
		want func(got segment.CallResult) string
	}{
		"a result over the bound is cut, and says so": {toolserver.Mood{Size: 1 << 20}, func(got segment.CallResult) string {
			switch {
			case len(got.Text) > 4096, len(got.Text) < 4000:
				return fmt.Sprintf("the text has %d bytes", len(got.Text))
			case !strings.HasSuffix(got.Text, " of 1048576 bytes are shown]"), got.Bytes != 1<<20:
				return fmt.Sprintf("of %d it says %q", got.Bytes, got.Text[len(got.Text)-60:])
			}
			return ""
		}},
		"a result within it is not": {toolserver.Mood{Size: 4096}, func(got segment.CallResult) string {
			if len(got.Text) != 4096 || got.Bytes != 4096 || strings.Contains(got.Text, "[cut") {
				return fmt.Sprintf("%d bytes of %d", len(got.Text), got.Bytes)
			}
			return ""
		}},
		"a cut falls between runes": {toolserver.Mood{Text: "x" + strings.Repeat("日本", 4000)}, func(got segment.CallResult) string {
			if strings.Contains(got.Text, "\uFFFD") || got.Text != contract.Clean(got.Text) {
				return got.Text[len(got.Text)-60:]
			}
			return ""
		}},
		"what no store takes is replaced": {toolserver.Mood{Text: "a\x00b"}, func(got segment.CallResult) string {
			if got.Text != "a\uFFFDb" && !strings.HasPrefix(got.Text, "[application/json") {
				return got.Text
			}
			return ""
		}},
		"an image is told and not shown": {toolserver.Mood{Image: true}, func(got segment.CallResult) string {
			if !strings.HasSuffix(got.Text, "[image/png, 5120 bytes, not shown]") {
				return got.Text
			}
			return ""
		}},
		"nothing is told as nothing": {toolserver.Mood{Text: " "}, func(got segment.CallResult) string {
			if got.Text != " " {
				return got.Text
			}
			return ""
		}},
	}
	for flavour := range flavours {
		for name, row := range rows {
			t.Run(flavour+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, flavour, nil)
				r.Behave(toolserver.GetCustomer, row.mood)
				if err := r.make(t.Context(), r.reads()); err != nil {
					t.Fatal(err)
				}
				got := r.settled[0]
				if got.Kind != segment.ResultAnswered {
					t.Fatalf("%+v", got)
				}
				if wrong := row.want(got); wrong != "" {
					t.Error(wrong)
				}
			})
		}
	}
}

func TestAnAnswerWithoutEndIsBounded(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		flavour, kind string
		want          came
		says          string
	}{
		// A message of the protocol is whole or nothing.
		"a stream":   {"an MCP server with sessions", "text/event-stream", came{segment.ResultIndeterminate, "", 1, 1, 1}, "too long"},
		"a document": {"an MCP server with sessions", "application/json", came{segment.ResultIndeterminate, "", 1, 1, 1}, "too long"},
		"a text":     {api, "text/plain", came{segment.ResultAnswered, "", 1, 1, 1}, "of 8388609 bytes are shown]"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, row.flavour, nil)
			r.Behave(toolserver.Refund, toolserver.Mood{Act: true, Endless: row.kind})
			given := r.sends()
			given.TimeoutSeconds = 60
			if err := r.make(t.Context(), given); err != nil {
				t.Fatal(err)
			}
			r.want(t, toolserver.Refund, row.want, row.says)
		})
	}
}

func TestStructuredContentIsShownWhereThereIsNoText(t *testing.T) {
	t.Parallel()
	r := newRig(t, "an MCP server with sessions", nil)
	r.Behave(toolserver.GetCustomer, toolserver.Mood{Structured: true})
	if err := r.make(t.Context(), r.reads()); err != nil {
		t.Fatal(err)
	}
	r.want(t, toolserver.GetCustomer, came{segment.ResultAnswered, "", 1, 1, 1}, `"name":"Ada Lovelace"`)
}

func TestAToolThatAsksAPersonHasFailed(t *testing.T) {
	t.Parallel()
	for flavour, says := range map[string]string{
		"an MCP server without sessions": "the tool wants input from a person, which is not supported",
		"an MCP server with sessions":    "elicitation", // It asks over the stream, and gets a no.
	} {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, flavour, nil)
			r.Behave(toolserver.Refund, toolserver.Mood{Ask: true})
			if err := r.make(t.Context(), r.sends()); err != nil {
				t.Fatal(err)
			}
			r.want(t, toolserver.Refund, came{segment.ResultFailed, "ToolFailed", 1, 1, 1}, says)
		})
	}
}
