package record

import (
	"encoding/json"
	"fmt"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// Bounds of what is stored, in bytes. The tables refuse more, so that nobody who reads one is given more than it can hold.
const (
	// MaxCode, MaxTool and MaxText are those of a code, of the name of a tool, and of the text of a call's result.
	MaxCode = 64
	MaxTool = 512
	MaxText = 2 << 20
	// MaxResult is that of a result: more than the longest answer of a model has.
	MaxResult = 64 << 20
)

// Outcome is a stored outcome.
type Outcome struct {
	Yield, Code, Message, Result string
	// Wait is a contract.Wait in JSON, or nil.
	Wait *string
}

// EncodeOutcome is the stored form of o, cleaned of what Postgres cannot hold and cut to its bounds. Equal outcomes have equal
// forms. What is waited for is not cleaned but escaped: the digest of a call's arguments is that of these very arguments. Asks that
// are too many are left out from behind: calls run in their order, and another segment asks about them.
func EncodeOutcome(o contract.Outcome) (Outcome, error) {
	if waits := o.Yield == contract.YieldWaiting; waits != (o.Wait != nil) {
		return Outcome{}, fmt.Errorf("outcome %s: only one that waits says for what", o.Yield)
	}
	out := Outcome{
		Yield: string(o.Yield), Code: contract.Clip(o.Code, MaxCode), Message: contract.Clip(o.Message, contract.MaxMessage),
		Result: contract.Clip(o.Result, MaxResult),
	}
	if o.Wait != nil {
		wait, err := encodeWait(*o.Wait)
		if err != nil {
			return Outcome{}, fmt.Errorf("encoding what is waited for: %w", err)
		}
		out.Wait = &wait
	}
	return out, nil
}

// encodeWait keeps as many asks as are promised and find room.
func encodeWait(w contract.Wait) (string, error) {
	w.Asks = w.Asks[:min(len(w.Asks), contract.MaxAsks)]
	for {
		body, err := json.Marshal(w)
		switch {
		case err != nil:
			return "", err
		case len(body) <= contract.MaxWait:
			return string(body), nil
		case len(w.Asks) <= 1:
			return "", fmt.Errorf("it has %d bytes, and %d are the most", len(body), contract.MaxWait)
		}
		w.Asks = w.Asks[:len(w.Asks)-1]
	}
}

// Decode reads a stored outcome. The error is contract.ErrSchema for a form this version does not know.
func (o Outcome) Decode() (contract.Outcome, error) {
	out := contract.Outcome{Yield: contract.Yield(o.Yield), Code: o.Code, Message: o.Message, Result: o.Result}
	if o.Wait != nil {
		out.Wait = &contract.Wait{}
		if err := json.Unmarshal([]byte(*o.Wait), out.Wait); err != nil {
			return contract.Outcome{}, fmt.Errorf("%w: what is waited for does not parse: %w", contract.ErrSchema, err)
		}
	}
	return out, nil
}
