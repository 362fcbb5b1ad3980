package record

import (
	"encoding/json"
	"fmt"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// Outcome is a stored outcome.
type Outcome struct {
	Yield, Code, Message, Result string
	// Wait is a contract.Wait in JSON, or nil.
	Wait *string
}

// EncodeOutcome is the stored form of o, cleaned of what Postgres cannot hold. Equal outcomes have equal forms. What is waited
// for is not cleaned but escaped: the digest of a call's arguments is that of these very arguments.
func EncodeOutcome(o contract.Outcome) (Outcome, error) {
	if waits := o.Yield == contract.YieldWaiting; waits != (o.Wait != nil) {
		return Outcome{}, fmt.Errorf("outcome %s: only one that waits says for what", o.Yield)
	}
	out := Outcome{
		Yield: string(o.Yield), Code: contract.Clean(o.Code), Message: contract.Clean(o.Message), Result: contract.Clean(o.Result),
	}
	if o.Wait != nil {
		body, err := json.Marshal(o.Wait)
		if err != nil {
			return Outcome{}, fmt.Errorf("encoding what is waited for: %w", err)
		}
		wait := string(body)
		out.Wait = &wait
	}
	return out, nil
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
