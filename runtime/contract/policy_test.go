package contract_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

func TestPolicySet(t *testing.T) {
	t.Parallel()
	want := contract.PolicySet{Schema: contract.PolicySchema, Sources: []contract.PolicySource{
		{Namespace: "ekiden-system", Name: "default", UID: "u", Generation: 7, Floor: true, Rules: []v1alpha1.PolicyRule{{
			Name: "money", Action: v1alpha1.PolicyRequireApproval,
			Match:    v1alpha1.PolicyMatch{Tools: []string{"payments/*"}, Effects: []v1alpha1.Effect{v1alpha1.EffectSend}, Expression: `args.amount > 100 && tool != "<a>"`},
			Approval: v1alpha1.PolicyApproval{Pool: "finance", Seats: 2, ExpiresSeconds: 60},
		}}},
		{Namespace: "support", Name: "default", Rules: []v1alpha1.PolicyRule{{Name: "all", Action: v1alpha1.PolicyDeny}}},
	}}
	body, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := contract.DecodePolicySet(body)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if diff := cmp.Diff(map[types.UID]int64{"u": 7}, got.Generations()); diff != "" {
		t.Error(diff)
	}
	if empty, err := (contract.PolicySet{}).Encode(); err != nil || string(empty) != `{"schema":1}` {
		t.Errorf("no policies are stored as %s, %v", empty, err)
	}
}

func TestASourceThatWasStoredWithoutItsGeneration(t *testing.T) {
	t.Parallel()
	got, err := contract.DecodePolicySet([]byte(`{"schema":1,"sources":[{"namespace":"team","name":"default"}]}`))
	want := contract.PolicySet{Schema: 1, Sources: []contract.PolicySource{{Namespace: "team", Name: "default"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || len(got.Generations()) != 0 {
		t.Error(diff, err, got.Generations())
	}
}

func TestPoliciesOfAnotherVersion(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]string{
		"a later schema": `{"schema":2,"sources":[]}`, "no schema": `{}`, "half a set": `{"schema":1,"sources":[`, "nothing": ``, "another shape": `{"schema":1,"sources":{}}`,
	} {
		if got, err := contract.DecodePolicySet([]byte(stored)); !errors.Is(err, contract.ErrSchema) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
