package ledger

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// LoginOf is the name of a namespace's first Postgres role: row-level security reads the namespace from it.
func LoginOf(namespace types.UID) string {
	return "ekiden_" + strings.ReplaceAll(string(namespace), "-", "")
}

// Slot tells the logins of a namespace apart, so that one can take the place of another while both are in use. The first is empty.
type Slot string

// Slots are all there are.
var Slots = []Slot{"", "a", "b"}

// Next is the slot after this one.
func (s Slot) Next() Slot {
	if s == "a" {
		return "b"
	}
	return "a"
}

// LoginOf is the name of the namespace's login in this slot.
func (s Slot) LoginOf(namespace types.UID) string {
	if s == "" {
		return LoginOf(namespace)
	}
	return LoginOf(namespace) + "_" + string(s)
}

// SlotOf is the slot in which the login is one of the namespace.
func SlotOf(namespace types.UID, login string) (Slot, bool) {
	i := slices.IndexFunc(Slots, func(s Slot) bool { return s.LoginOf(namespace) == login })
	if i < 0 {
		return "", false
	}
	return Slots[i], true
}

// LoginsOf are the names of all logins that a namespace may have.
func LoginsOf(namespace types.UID) (all []string) {
	for _, s := range Slots {
		all = append(all, s.LoginOf(namespace))
	}
	return all
}
