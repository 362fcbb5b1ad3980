package doctor

import (
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// holder is an object that names a key in a Secret of its namespace, or none.
type holder struct {
	namespace, name string
	ref             v1alpha1.KeyReference
}

func (h holder) secret() types.NamespacedName {
	return types.NamespacedName{Namespace: h.namespace, Name: h.ref.Name}
}

// credentials judges the Secrets of objects of one kind. goods is what belongs in them.
func (f Facts) credentials(kind, goods string, holders []holder) []Finding {
	var out []Finding
	checked, open := 0, 0
	hidden := map[string]int{}
	for _, h := range holders {
		secret := f.Secrets[h.secret()]
		found := Finding{Level: Fail, What: named(kind, h.namespace, h.name), Cure: "create it with the key " + h.ref.Key}
		switch {
		case h.ref.Name == "":
			open++
		case apierrors.IsForbidden(secret.Err):
			hidden[h.namespace]++
		case apierrors.IsNotFound(secret.Err):
			found.Says = fmt.Sprintf("its Secret %s is missing", h.ref.Name)
			out = append(out, found)
		case secret.Err != nil:
			out = append(out, unseen(fmt.Sprintf("Secret %s", h.secret()), secret.Err))
		case !secret.Value[h.ref.Key]:
			found.Says, found.Cure = fmt.Sprintf("its Secret %s has no key %s, or nothing in it", h.ref.Name, h.ref.Key), "put "+goods+" there"
			out = append(out, found)
		default:
			checked++
		}
	}
	if len(out) == 0 && (len(hidden) == 0 || checked+open > 0) {
		out = append(out, ok(kind+"s of "+f.everywhere(), "%d have their Secret and key, %d need none", checked, open))
	}
	for _, namespace := range slices.Sorted(maps.Keys(hidden)) {
		out = append(out, skip(fmt.Sprintf("Secrets of %d %ss in namespace %s", hidden[namespace], kind, namespace), "you may not read Secrets there", ""))
	}
	return out
}
