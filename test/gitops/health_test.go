package gitops

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// tools are what an object is to Argo CD and to Flux. Flux does not look at what the objects of its own made.
type tools struct{ argocd, flux string }

// TestHealth tells for each state of each kind what the tools make of it.
func TestHealth(t *testing.T) {
	t.Parallel()
	const (
		argoWaits = "Progressing"
		fluxWaits = "InProgress"
	)
	var (
		waits  = tools{argoWaits, fluxWaits}
		well   = tools{"Healthy", "Current"}
		ill    = tools{"Degraded", "Failed"}
		broken = tools{"Degraded", fluxWaits} // Flux waits until its timeout: somebody else's object may cure it
	)
	tests := map[string]map[string]tools{
		"AgentRun": {
			"Applied a moment ago.":                                        waits,
			"In the queue: its definition has not compiled.":               waits,
			"In the queue: its ConfigMap is missing.":                      waits,
			"Its pod has been asked for.":                                  waits,
			"A queue such as Kueue holds its pod back.":                    waits,
			"A segment works on it.":                                       waits,
			"It pauses before the next attempt.":                           waits,
			"People have to decide.":                                       {"Suspended", fluxWaits},
			"A change was applied to it while it waits, and not seen yet.": waits,
			"It is to be cancelled, and its pod has not stopped.":          waits,
			"The agent gave its answer.":                                   well,
			"A limit ended it, and there is a partial result.":             well,
			"It failed. The test makes one such run of each error code.":   ill,
			"Nobody applied its definition.":                               ill,
			"Somebody wanted it to end.":                                   ill,
			"It has ended, and its TTL was changed afterwards: an end is written once, so the status stays as it was.": {"Healthy", fluxWaits},
		},
		"ApprovalRequest": {
			"Created a moment ago.": {argocd: "Suspended"},
			"It is open.":           {argocd: "Suspended"},
			"Somebody decided, and the manager has not seen it yet.":           {argocd: argoWaits},
			"Somebody decided, and the policies that say who may are missing.": {argocd: "Degraded"},
			"It was approved.":                                                   {argocd: "Healthy"},
			"It was denied.":                                                     {argocd: "Healthy"},
			"Somebody said that the call took effect.":                           {argocd: "Healthy"},
			"Somebody said that the call did not take effect.":                   {argocd: "Healthy"},
			"Somebody said that the call is to be made again.":                   {argocd: "Healthy"},
			"Nobody decided in time.":                                            {argocd: "Healthy"},
			"Somebody decided after that.":                                       {argocd: "Healthy"},
			"The run has ended.":                                                 {argocd: "Healthy"},
			"Who approved another seat decided on this one too.":                 {argocd: "Healthy"},
			"It was decided while the policies were missing, and they are back.": {argocd: "Healthy"},
		},
		"AgentDefinition": {
			"It compiled.":                                  well,
			"Applied a moment ago.":                         waits,
			"Its endpoint is missing.":                      broken,
			"Its tool server is missing.":                   broken,
			"Two of its tools have the same name.":          broken,
			"Its tool server does not offer a tool.":        broken,
			"An edit that the manager has not seen yet.":    waits,
			"Its tool server is being asked for its tools.": waits,

			"An edit that does not compile; the last revision is current.": broken,
		},
		"ToolServer": {
			"Applied a moment ago.":                      waits,
			"A Job asks it.":                             waits,
			"Its tools are known.":                       well,
			"An edit that the manager has not seen yet.": waits,
			"It could not be asked.":                     broken,
			"Its spec cannot be used.":                   broken,
		},
		"AgentPolicy": {
			"Applied a moment ago.":                      waits,
			"It is in force.":                            well,
			"An edit that the manager has not seen yet.": waits,
		},
	}
	objects, lua, cel := recorded(t), scripts(t), checks(t)
	for kind, states := range objects {
		for state, o := range states {
			want, said := tests[kind][state]
			if !said {
				t.Errorf("%s: what is it to the tools? %s", kind, state)
			}
			check(t, lua[kind], cel[kind], o, want)
			delete(tests[kind], state)
		}
		for _, state := range slices.Sorted(maps.Keys(tests[kind])) {
			t.Errorf("%s: testdata has none of which it says: %s", kind, state)
		}
	}
	for _, code := range spoken(t).codes {
		check(t, lua["AgentRun"], cel["AgentRun"], failedWith(t, code), ill)
	}
}

func check(t *testing.T, script string, e expressions, o object, want tools) {
	t.Helper()
	got := judge(t, script, o)
	if got.status != want.argocd {
		t.Errorf("%s: to Argo CD it is %s, want %s: %s", o.kind, got.status, want.argocd, o.state)
	}
	if strings.TrimSpace(got.message) == "" {
		t.Errorf("%s: Argo CD shows no message: %s", o.kind, o.state)
	}
	if want.flux == "" {
		if e != (expressions{}) {
			t.Errorf("%s: Flux has an expression and no say", o.kind)
		}
		return
	}
	if got := await(t, e, o); got != want.flux {
		t.Errorf("%s: to Flux it is %s, want %s: %s", o.kind, got, want.flux, o.state)
	}
}

// TestMessages: what Argo CD shows of a run says why, in the word that scripts rely on and the sentence for people.
func TestMessages(t *testing.T) {
	t.Parallel()
	run := recorded(t)["AgentRun"]["People have to decide."]
	got := judge(t, scripts(t)["AgentRun"], run).message
	if want := "AwaitingApproval: payments__refund wants a decision of pool finance"; got != want {
		t.Errorf("it shows %q, want %q", got, want)
	}
}
