package sim

import (
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// probe is work.probe around tool.Invoker.Probe. The tries of a question, which only reads, are one here.
func (p *process) probe(permit gate.ProbePermit) error {
	k := segment.CallKey{Turn: permit.Turn(), Index: permit.Index()}
	p.pause("asks about " + keyName(k))
	answer := p.w.probed(k)
	deadline := p.w.now.Add(time.Duration(permit.Tool().TimeoutSeconds) * time.Second)
	cut := p.pass(earlier(answer.at, deadline), false, false, "waits for the probe")
	switch {
	case p.cause != nil:
		return p.cause
	case cut != nil:
		return &segment.FaultError{Fault: contract.Fault{Code: contract.FaultStopped, Message: "stopped before the probe had answered"}}
	case answer.at.After(deadline):
		answer = probeAnswer{}
	}
	p.w.laws.found(p, k, answer.says)
	found := read(permit, answer.text)
	if p.w.bugs.ProbeGuesses && found.Says == "" {
		found.Says = v1alpha1.VerdictNotHappened
	}
	d := p.doubts[k]
	d.Probed = &found
	p.doubts[k] = d
	return nil
}

// read is that of package segment.
func read(permit gate.ProbePermit, text string) segment.Finding {
	if text == "" {
		return segment.Finding{Text: "it did not answer"}
	}
	happened, problem := permit.Reads(text)
	switch {
	case problem != "":
		return segment.Finding{Text: problem}
	case happened:
		return segment.Finding{Says: v1alpha1.VerdictHappened, Text: text}
	default:
		return segment.Finding{Says: v1alpha1.VerdictNotHappened, Text: text}
	}
}
