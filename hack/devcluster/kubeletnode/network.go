package kubeletnode

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Network is the node's network namespace and the cable to it. It exists as long as the process that made it: the
// kernel removes both when the last who holds them is gone, so a node that dies finds its network again.
type Network struct {
	// Namespace is given to the node.
	Namespace *os.File
}

// Connect makes the network of a node.
func Connect(c Config) (*Network, error) {
	if err := free(c); err != nil {
		return nil, err
	}
	namespace, err := newNamespace()
	if err != nil {
		return nil, fmt.Errorf("making a network namespace: %w", err)
	}
	network := &Network{Namespace: namespace}
	if err := network.cable(c); err != nil {
		_ = namespace.Close()
		return nil, fmt.Errorf("connecting the node to this machine: %w", err)
	}
	return network, nil
}

// free refuses addresses that this machine uses already.
func free(c Config) error {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("reading the addresses of this machine: %w", err)
	}
	for _, network := range []string{c.Cable(), c.Pods()} {
		_, ours, err := net.ParseCIDR(network)
		if err != nil {
			return err
		}
		for _, address := range addresses {
			if other, is := address.(*net.IPNet); is && (ours.Contains(other.IP) || other.Contains(ours.IP)) {
				return fmt.Errorf("the node's network %s is in use: this machine is %s", network, other)
			}
		}
	}
	return nil
}

// tryNetwork makes in a network of its own what a node's is made of. All of it goes with the thread.
func tryNetwork() error {
	tried := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // And never unlocked: the thread ends with the goroutine.
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			tried <- err
			return
		}
		pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "there"}
		pair.Name = "here"
		if err := netlink.LinkAdd(pair); err != nil {
			tried <- fmt.Errorf("making a pair of interfaces: %w", err)
			return
		}
		if output, err := exec.Command("nft", "add", "table", "inet", "trial").CombinedOutput(); err != nil {
			tried <- fmt.Errorf("making a table of rules: %w: %s", err, output)
			return
		}
		tried <- nil
	}()
	return <-tried
}

// newNamespace makes one by a thread that ends in it.
func newNamespace() (*os.File, error) {
	type result struct {
		file *os.File
		err  error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread() // And never unlocked: the thread ends with the goroutine.
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			made <- result{err: err}
			return
		}
		file, err := os.Open("/proc/thread-self/ns/net")
		made <- result{file, err}
	}()
	r := <-made
	return r.file, r.err
}

// cable joins the two sides by a pair of interfaces and gives each its address.
func (n *Network) cable(c Config) error {
	here, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer here.Close()
	there, err := netlink.NewHandleAt(netns.NsHandle(n.Namespace.Fd()))
	if err != nil {
		return err
	}
	defer there.Close()

	name := "devc-" + c.tag()
	pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "eth0", PeerNamespace: netlink.NsFd(n.Namespace.Fd())}
	pair.Name = name
	if err := here.LinkAdd(pair); err != nil {
		return fmt.Errorf("making %s: %w", name, err)
	}
	if err := assign(here, name, c.Host()+"/30"); err != nil {
		return err
	}
	if err := assign(there, "eth0", c.Address()+"/30"); err != nil {
		return err
	}
	if err := assign(there, "lo", ""); err != nil {
		return err
	}
	if err := route(here, c.Pods(), c.Address()); err != nil {
		return err
	}
	return route(there, "0.0.0.0/0", c.Host())
}

// assign gives an interface its address and turns it on.
func assign(handle *netlink.Handle, name, address string) error {
	link, err := handle.LinkByName(name)
	if err != nil {
		return fmt.Errorf("finding %s: %w", name, err)
	}
	if address != "" {
		parsed, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		if err := handle.AddrAdd(link, parsed); err != nil {
			return fmt.Errorf("giving %s the address %s: %w", name, address, err)
		}
	}
	if err := handle.LinkSetUp(link); err != nil {
		return fmt.Errorf("turning on %s: %w", name, err)
	}
	return nil
}

func route(handle *netlink.Handle, network, gateway string) error {
	_, destination, err := net.ParseCIDR(network)
	if err != nil {
		return err
	}
	if err := handle.RouteAdd(&netlink.Route{Dst: destination, Gw: net.ParseIP(gateway)}); err != nil {
		return fmt.Errorf("making the route to %s: %w", network, err)
	}
	return nil
}

// clearNetwork removes the bridge of an earlier boot of the node, called in its namespace.
func clearNetwork() error {
	link, err := netlink.LinkByName(bridge)
	if err != nil {
		return nil // There is none.
	}
	return netlink.LinkDel(link)
}

// Close removes the network once no process of the node is left.
func (n *Network) Close() error { return n.Namespace.Close() }
