package processnode

import (
	"fmt"
	"sync"
)

// addresses gives each pod a loopback address of its own, 127.NET.x.y, so that
// two replicas can listen on the same port. On Linux all of 127.0.0.0/8 is local.
type addresses struct {
	net int

	mu   sync.Mutex
	next int
	used map[int]bool
}

// span is how many addresses there are: x from 0 to 255, y from 1 to 254.
const span = 256 * 254

func newAddresses(net int) *addresses {
	return &addresses{net: net, used: map[int]bool{}}
}

// take returns an address no living pod has. It comes back late to one that was
// used, so that a client of an ended pod does not meet another one there.
func (a *addresses) take() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.used[a.next] {
		a.next = (a.next + 1) % span
	}
	number := a.next
	a.used[number] = true
	a.next = (a.next + 1) % span
	return a.format(number)
}

func (a *addresses) release(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for number := range a.used {
		if a.format(number) == address {
			delete(a.used, number)
			return
		}
	}
}

func (a *addresses) format(number int) string {
	return fmt.Sprintf("127.%d.%d.%d", a.net, number/254, 1+number%254)
}
