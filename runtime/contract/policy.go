package contract

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// PolicySchema is the schema of the policies this version writes, and the only one it reads.
const PolicySchema = 1

// PolicySet is what is in force in a namespace. The manager projects it into the ledger; each call reads the newest.
type PolicySet struct {
	// Schema is PolicySchema.
	Schema int `json:"schema"`
	// Sources are the policies in force, the floor first.
	Sources []PolicySource `json:"sources,omitempty"`
}

// PolicySource is one AgentPolicy.
type PolicySource struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID and Generation say which state of the object it is. What was stored before they were has none.
	UID        types.UID `json:"uid,omitempty"`
	Generation int64     `json:"generation,omitempty"`
	// Floor says that it is the policy of the manager's namespace: another source cannot loosen what it says.
	Floor bool                  `json:"floor,omitempty"`
	Rules []v1alpha1.PolicyRule `json:"rules,omitempty"`
}

// Policy is one version of a namespace's policy set. Versions rise.
type Policy struct {
	Version int64
	Set     PolicySet
}

// Generations are the generations of the sources by their UIDs.
func (s PolicySet) Generations() map[types.UID]int64 {
	all := map[types.UID]int64{}
	for _, p := range s.Sources {
		if p.UID != "" {
			all[p.UID] = p.Generation
		}
	}
	return all
}

// Encode is the stored form of s. Equal sets have equal forms.
func (s PolicySet) Encode() ([]byte, error) {
	s.Schema = PolicySchema
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding policies: %w", err)
	}
	return body, nil
}

// DecodePolicySet reads a stored set. The error is ErrSchema for a schema this version does not know.
func DecodePolicySet(body []byte) (PolicySet, error) {
	var s PolicySet
	if err := json.Unmarshal(body, &s); err != nil {
		return PolicySet{}, fmt.Errorf("%w: policies do not parse: %w", ErrSchema, err)
	}
	if s.Schema != PolicySchema {
		return PolicySet{}, fmt.Errorf("%w: policies have schema %d, this version reads %d", ErrSchema, s.Schema, PolicySchema)
	}
	return s, nil
}
