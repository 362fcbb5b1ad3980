// Package job turns an attempt at a segment into the Job that makes it, and that Job and its pods back into what
// they tell. It is pure: it reads and returns values.
package job

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
)

// Name is the name of an attempt's Job. It is a function of the run and the attempt, so that creating the same attempt
// twice is a conflict and not a second pod; the hash keeps a run apart from an earlier one of the same name.
func Name(run string, uid types.UID, k lifecycle.AttemptKey) string {
	return fmt.Sprintf("%s-s%d-a%d", lifecycle.Stem(run, uid), k.Segment, k.Attempt)
}
