package ledger

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// LoginOf is the name of a namespace's Postgres role: row-level security reads the namespace from it.
func LoginOf(namespace types.UID) string {
	return "ekiden_" + strings.ReplaceAll(string(namespace), "-", "")
}
