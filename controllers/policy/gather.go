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
	for i, ns := range sources(namespace, managerNamespace) {
		p, err := read(ctx, reader, ns)
		if client.IgnoreNotFound(err) != nil {
			return set, err
		}
		if err == nil {
			set.Sources = append(set.Sources, contract.PolicySource{
				Namespace: ns, Name: p.Name, UID: p.UID, Generation: p.Generation, Floor: i == 0, Rules: p.Spec.Rules,
			})
		}
	}
	return set, nil
}

// sources are the namespaces whose policies are in force in one, the floor first.
func sources(namespace, managerNamespace string) []string {
	if namespace == managerNamespace {
		return []string{namespace}
	}
	return []string{managerNamespace, namespace}
}

// read is the policy in force of a namespace. The error is one of the API server's, under our own words.
func read(ctx context.Context, reader client.Reader, namespace string) (v1alpha1.AgentPolicy, error) {
	var p v1alpha1.AgentPolicy
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1alpha1.DefaultPolicyName}, &p); err != nil {
		return v1alpha1.AgentPolicy{}, fmt.Errorf("policy of namespace %s: %w", namespace, err)
	}
	return p, nil
}
