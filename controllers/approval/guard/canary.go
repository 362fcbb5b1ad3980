package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/config/admission"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// canaryName is the name of the request that has to be refused. Nothing of that name is ever stored.
const canaryName = "ekiden-canary"

// try has the API server refuse a request that is created decided, and says what is wrong if it does not.
func (g *Guard) try(ctx context.Context, namespace string) (why string, err error) {
	err = g.client.Create(ctx, canary(namespace), client.DryRunAll)
	switch {
	case err == nil || apierrors.IsAlreadyExists(err):
		return fmt.Sprintf("the policies of config/admission are installed and the API server does not heed them in namespace %s: "+
			"it took a request that was created decided. Policies that were just applied take some seconds; otherwise see that "+
			"--disable-admission-plugins of the API server does not name ValidatingAdmissionPolicy", namespace), nil
	case g.refused(err):
		return "", nil
	case definite(err):
		return contract.Clip(fmt.Sprintf("whether the API server heeds the policies in namespace %s cannot be tried, because something else refuses to: "+
			"let the manager create ApprovalRequests there. It says: %s", namespace, err), contract.MaxMessage), nil
	default:
		return "", fmt.Errorf("trying the guard of approvals in namespace %s: %w", namespace, err)
	}
}

// refused reports whether it was our policy that refused. Who refuses a request shows in nothing but the message, so it has
// to begin as the API server begins it for a policy of this name. A webhook cannot say that: what it answers is put behind
// its own name.
func (g *Guard) refused(err error) bool {
	words := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", g.policy, g.policy, admission.CreatedDecided)
	ours := apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("approvalrequests").GroupResource(), canaryName, errors.New(words))
	return apierrors.IsForbidden(err) && strings.HasPrefix(err.Error(), ours.Error())
}

// definite reports whether the answer is one that stays until somebody does something.
func definite(err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false
	}
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// canary is a request that only the guard refuses: the schema takes it.
func canary(namespace string) *v1alpha1.ApprovalRequest {
	zero := int32(0)
	return &v1alpha1.ApprovalRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: canaryName},
		Spec: v1alpha1.ApprovalRequestSpec{
			Type:      v1alpha1.ApprovalCall,
			Call:      v1alpha1.ApprovalRequestCall{Turn: &zero, Index: &zero, Tool: "canary/canary", Effect: v1alpha1.EffectSend, Digest: "sha256:" + strings.Repeat("0", 64)},
			RunRef:    v1alpha1.RunReference{Name: canaryName, UID: canaryName},
			Requester: v1alpha1.Principal{User: canaryName},
			Pool:      "canary", Seat: 1, Seats: 1,
			ExpiresAt: metav1.NewTime(time.Unix(0, 0)),
			Decision:  v1alpha1.Decision{Verdict: v1alpha1.VerdictDenied, By: canaryName},
		},
	}
}
