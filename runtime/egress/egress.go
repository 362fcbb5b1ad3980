// Package egress guards what a process dials. The guard sits below name resolution, at the moment of dialling: a
// name that resolves to a public address when it is checked and to a private one when it is used gains nothing.
package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// ErrRefused is what every *Refusal unwraps to.
var ErrRefused = errors.New("address refused")

// Refusal is the error of dialling an address that is special and not allowed. Nothing was sent.
type Refusal struct {
	Addr netip.Addr
	// Kind says what is special about the address, such as "loopback".
	Kind string
	// Proxy says that it is the address of the proxy.
	Proxy bool
	// Host is what was written in place of an address that is not known; else it is empty. Kind then ends with how to write it, and no
	// range lets it pass.
	Host string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%v: %s is %s", ErrRefused, r.Address(), r.Kind) }

// Address is the address, or what was written in its place.
func (r *Refusal) Address() string {
	if r.Host != "" {
		return r.Host
	}
	return r.Addr.String()
}

// Unwrap is ErrRefused.
func (r *Refusal) Unwrap() error { return ErrRefused }

// Parse reads address ranges in CIDR notation.
func Parse(ranges []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(ranges))
	for _, s := range ranges {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("%q is not an address range such as 10.20.0.0/16", s)
		}
		// Addresses are compared unmapped, so a mapped range would match nothing.
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// Dialer dials public addresses and those that allow lists, and refuses every other with a *Refusal.
func Dialer(allow []netip.Prefix) *net.Dialer {
	return &net.Dialer{
		Timeout:   10 * time.Second,
		KeepAlive: 30 * time.Second,
		Control: func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%w: %q is not an IP address", ErrRefused, address)
			}
			return Check(to.Addr(), allow)
		},
	}
}

// Check is nil for a public address and for one that allow lists, and a *Refusal for any other.
func Check(a netip.Addr, allow []netip.Prefix) error {
	// A prefix never contains an address with a zone or a mapped one: fe80::1%eth0 and ::ffff:127.0.0.1 would slip through.
	a = a.WithZone("").Unmap()
	kind := special(a)
	if kind == "" {
		return nil
	}
	for _, p := range allow {
		if p.Contains(a) {
			return nil
		}
	}
	return &Refusal{Addr: a, Kind: kind}
}

// special says what is special about a, or nothing. The standard library's predicates miss half of these ranges.
func special(a netip.Addr) string {
	for _, r := range ranges {
		if r.prefix.Contains(a) {
			return r.kind
		}
	}
	if a.Is6() && !global.Contains(a) {
		return "outside the global unicast range"
	}
	return ""
}

// global is all of IPv6 that is assigned for use between networks.
var global = netip.MustParsePrefix("2000::/3")

var ranges = []struct {
	prefix netip.Prefix
	kind   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared (carrier-grade NAT)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	// The metadata service of Azure answers on a public address.
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata service"},
	{netip.MustParsePrefix("169.254.169.254/32"), "a metadata service"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved for protocols"},
	{netip.MustParsePrefix("192.0.2.0/24"), "reserved for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a 6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "reserved for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "reserved for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "reserved for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},

	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	// These carry an IPv4 address inside, which a gateway on the way would dial.
	{netip.MustParsePrefix("::/96"), "IPv4-compatible"},
	{netip.MustParsePrefix("64:ff9b::/96"), "translated (NAT64)"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "translated (NAT64)"},
	{netip.MustParsePrefix("2002::/16"), "tunnelled (6to4)"},
	{netip.MustParsePrefix("2001::/32"), "tunnelled (Teredo)"},
	{netip.MustParsePrefix("2001::/23"), "reserved for protocols"},
	{netip.MustParsePrefix("2001:db8::/32"), "reserved for documentation"},
	{netip.MustParsePrefix("3fff::/20"), "reserved for documentation"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "a metadata service"},
	{netip.MustParsePrefix("fc00::/7"), "private (unique local)"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}
