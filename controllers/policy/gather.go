package policy

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// Gather is what is in force in a namespace: the policy of the manager's namespace as the floor, then its own.
func Gather(ctx context.Context, reader client.Reader, namespace, managerNamespace string) (contract.PolicySet, error) {
	set := contract.PolicySet{Schema: contract.PolicySchema}
	from := []string{managerNamespace, namespace}
	if namespace == managerNamespace {
		from = from[:1]
	}
	for i, ns := range from {
		var p v1alpha1.AgentPolicy
		err := reader.Get(ctx, client.ObjectKey{Namespace: ns, Name: v1alpha1.DefaultPolicyName}, &p)
		if client.IgnoreNotFound(err) != nil {
			return set, fmt.Errorf("policy of namespace %s: %w", ns, err)
		}
		if err == nil {
			set.Sources = append(set.Sources, contract.PolicySource{
				Namespace: ns, Name: p.Name, UID: p.UID, Generation: p.Generation, Floor: i == 0, Rules: p.Spec.Rules,
			})
		}
	}
	return set, nil
}
