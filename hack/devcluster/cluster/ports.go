package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Loopback is where every server of the cluster listens.
const Loopback = "127.0.0.1"

// Ports of the cluster. They stay the same while it lives, also when one of its
// processes is restarted, and are kept for its next start.
type Ports struct {
	EtcdClient int `json:"etcdClient"`
	EtcdPeer   int `json:"etcdPeer"`
	APIServer  int `json:"apiServer"`
	Postgres   int `json:"postgres"`
	Node       int `json:"node"`
	// PodNet is the second octet of the pods' addresses, 127.PodNet.x.y, so
	// that the pods of two clusters on one machine do not meet.
	PodNet int `json:"podNet"`
}

// The kernel takes the local ports of outgoing connections from 32768 upwards.
// A server that is restarted must find its port free, so ours are below.
const (
	lowestPort  = 20000
	highestPort = 32767
)

// ChoosePorts returns the remembered ports where they are free, others where not.
func (d Dir) ChoosePorts() (Ports, error) {
	var ports Ports
	_ = readJSON(d.Ports(), &ports) // Not there at the first start; then all are zero.

	chosen := map[int]bool{}
	for _, port := range []*int{&ports.EtcdClient, &ports.EtcdPeer, &ports.APIServer, &ports.Postgres, &ports.Node} {
		if err := choose(port, chosen); err != nil {
			return Ports{}, err
		}
	}
	if ports.PodNet == 0 {
		ports.PodNet = 2 + rand.IntN(253)
	}
	return ports, writeJSON(d.Ports(), ports)
}

func choose(port *int, chosen map[int]bool) error {
	for range 1000 {
		if *port != 0 && !chosen[*port] && free(*port) {
			chosen[*port] = true
			return nil
		}
		*port = lowestPort + rand.IntN(highestPort-lowestPort+1)
	}
	return fmt.Errorf("no free port between %d and %d", lowestPort, highestPort)
}

func free(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort(Loopback, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = listener.Close()
	return true
}
