// Package job turns an attempt at a segment into the Job that makes it, and that Job and its pods back into what
// they tell. It is pure: it reads and returns values.
package job

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
)

// Name is the name of an attempt's Job. It is a function of the run and the attempt, so that creating the same attempt
// twice is a conflict and not a second pod; the hash keeps a run apart from an earlier one of the same name.
func Name(run string, uid types.UID, k lifecycle.AttemptKey) string {
	return fmt.Sprintf("%s-s%d-a%d", stem(run, uid), k.Segment, k.Attempt)
}

// stem is the run's name cut to 40 and the hash of its UID. Dots are legal in the name of a run and not in that of a pod's host.
func stem(run string, uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	cut := strings.ReplaceAll(run, ".", "-")
	cut = strings.TrimRight(cut[:min(len(cut), 40)], "-")
	return cut + "-" + hex.EncodeToString(sum[:4])
}
