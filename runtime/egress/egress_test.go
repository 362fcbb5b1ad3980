package egress_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/runtime/egress"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	type given struct {
		addr  string
		allow []string
	}
	rows := map[string]struct {
		given given
		want  string
	}{
		"a public IPv4 address is dialled":                         {given{addr: "8.8.8.8"}, ""},
		"a public IPv6 address is dialled":                         {given{addr: "2606:4700::1111"}, ""},
		"the unspecified address is refused":                       {given{addr: "0.0.0.0"}, "unspecified"},
		"loopback is refused":                                      {given{addr: "127.0.0.1"}, "loopback"},
		"all of 127/8 is loopback":                                 {given{addr: "127.9.9.9"}, "loopback"},
		"loopback mapped into IPv6 is refused":                     {given{addr: "::ffff:127.0.0.1"}, "loopback"},
		"10/8 is refused":                                          {given{addr: "10.1.2.3"}, "private"},
		"a private address mapped into IPv6 is refused":            {given{addr: "::ffff:10.1.2.3"}, "private"},
		"172.16/12 is refused":                                     {given{addr: "172.31.255.255"}, "private"},
		"172.32/12 is public":                                      {given{addr: "172.32.0.1"}, ""},
		"192.168/16 is refused":                                    {given{addr: "192.168.1.1"}, "private"},
		"carrier-grade NAT is refused":                             {given{addr: "100.64.0.1"}, "shared (carrier-grade NAT)"},
		"a metadata service in carrier-grade NAT is refused":       {given{addr: "100.100.100.200"}, "shared (carrier-grade NAT)"},
		"100.128/9 is public":                                      {given{addr: "100.128.0.1"}, ""},
		"link-local is refused":                                    {given{addr: "169.254.1.1"}, "link-local"},
		"the metadata address is refused":                          {given{addr: "169.254.169.254"}, "a metadata service"},
		"the mapped metadata address is refused":                   {given{addr: "::ffff:169.254.169.254"}, "a metadata service"},
		"a metadata service on a public address is refused":        {given{addr: "168.63.129.16"}, "a metadata service"},
		"a metadata service in IPv6 is refused":                    {given{addr: "fd00:ec2::254"}, "a metadata service"},
		"192.0.0/24 is refused":                                    {given{addr: "192.0.0.192"}, "reserved for protocols"},
		"benchmark addresses are refused":                          {given{addr: "198.19.0.1"}, "reserved for benchmarks"},
		"multicast is refused":                                     {given{addr: "224.0.0.1"}, "multicast"},
		"broadcast is refused":                                     {given{addr: "255.255.255.255"}, "reserved"},
		"IPv6 unspecified is refused":                              {given{addr: "::"}, "unspecified"},
		"IPv6 loopback is refused":                                 {given{addr: "::1"}, "loopback"},
		"an IPv4-compatible address is refused":                    {given{addr: "::7f00:1"}, "IPv4-compatible"},
		"unique local is refused":                                  {given{addr: "fd12::1"}, "private (unique local)"},
		"IPv6 link-local is refused":                               {given{addr: "fe80::1"}, "link-local"},
		"a zone does not hide link-local":                          {given{addr: "fe80::1%eth0"}, "link-local"},
		"IPv6 multicast is refused":                                {given{addr: "ff02::1"}, "multicast"},
		"NAT64 is refused":                                         {given{addr: "64:ff9b::a00:1"}, "translated (NAT64)"},
		"6to4 is refused":                                          {given{addr: "2002:a00:1::1"}, "tunnelled (6to4)"},
		"Teredo is refused":                                        {given{addr: "2001:0:1::1"}, "tunnelled (Teredo)"},
		"translated addresses outside global unicast are refused":  {given{addr: "::ffff:0:127.0.0.1"}, "outside the global unicast range"},
		"a listed range is dialled":                                {given{"10.20.1.1", []string{"10.20.0.0/16"}}, ""},
		"a range with host bits is taken as its network":           {given{"10.20.1.1", []string{"10.20.9.9/16"}}, ""},
		"an address beside a listed range is refused":              {given{"10.21.1.1", []string{"10.20.0.0/16"}}, "private"},
		"the second listed range counts too":                       {given{"::1", []string{"10.20.0.0/16", "::1/128"}}, ""},
		"a mapped address is looked up by its IPv4 address":        {given{"::ffff:10.20.1.1", []string{"10.20.0.0/16"}}, ""},
		"a mapped range is taken as its IPv4 range":                {given{"10.20.1.1", []string{"::ffff:10.20.0.0/112"}}, ""},
		"an IPv6 range does not let an IPv4 address through":       {given{"10.20.1.1", []string{"::/0"}}, "private"},
		"a listed link-local range lets an address with zone pass": {given{"fe80::1%eth0", []string{"fe80::/10"}}, ""},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			allow, err := egress.Parse(row.given.allow)
			if err != nil {
				t.Fatal(err)
			}
			kind := ""
			var refusal *egress.Refusal
			if err := egress.Check(netip.MustParseAddr(row.given.addr), allow); errors.As(err, &refusal) {
				kind = refusal.Kind
			}
			if diff := cmp.Diff(row.want, kind); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefusesWhatIsNoRange(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "10.0.0.1", "10.0.0.0/33", "example.com/8", "fe80::1%eth0/64"} {
		if _, err := egress.Parse([]string{s}); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestDialer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())

	rows := map[string]struct {
		given string
		allow []string
		want  error
	}{
		"a loopback address is refused when it is dialled":            {given: "127.0.0.1", want: egress.ErrRefused},
		"a name is refused by the address it resolves to":             {given: "localhost", want: egress.ErrRefused},
		"a mapped address is refused by what it maps to":              {given: "::ffff:127.0.0.1", want: egress.ErrRefused},
		"the short form of loopback is refused":                       {given: "0", want: egress.ErrRefused},
		"an allowed address is dialled":                               {given: "127.0.0.1", allow: []string{"127.0.0.0/8"}},
		"an allowed range does not open the ranges that it is not in": {given: "127.0.0.1", allow: []string{"10.0.0.0/8"}, want: egress.ErrRefused},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			allow, err := egress.Parse(row.allow)
			if err != nil {
				t.Fatal(err)
			}
			c, err := egress.Dialer(allow).DialContext(t.Context(), "tcp", net.JoinHostPort(row.given, port))
			if c != nil {
				c.Close()
			}
			if row.given == "0" && err != nil && !errors.Is(err, egress.ErrRefused) {
				return // No resolver knows this name, which is as good.
			}
			if !errors.Is(err, row.want) {
				t.Errorf("got %v, want %v", err, row.want)
			}
		})
	}
}
