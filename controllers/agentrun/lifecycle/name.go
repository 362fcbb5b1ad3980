package lifecycle

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Stem begins the names of all that is made for a run: its name cut to 40 and the hash of its UID. Dots are legal in the name
// of a run and not in that of a pod's host.
func Stem(run string, uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	cut := strings.ReplaceAll(run, ".", "-")
	cut = strings.TrimRight(cut[:min(len(cut), 40)], "-")
	return cut + "-" + hex.EncodeToString(sum[:4])
}
