package session

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// ErrDSN is returned for a DSN that cannot be read. It does not repeat it.
var ErrDSN = errors.New("the DSN cannot be read: it has the form postgres://user:password@host:5432/ekiden")

// Tenant is the DSN of a namespace as its Secret holds it, at another address if one is given. It must say itself who
// logs in: whoever wrote the Secret shall not be sent a password of this machine.
func Tenant(dsn, address string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", ErrDSN
	}
	if _, has := u.User.Password(); !has {
		return "", errors.New("the DSN holds no password")
	}
	if address != "" {
		u.Host = address
	}
	return u.String(), nil
}

// Reach says how to reach the Postgres of a namespace's DSN from outside the cluster.
func Reach(dsn, namespace string) string {
	u, err := url.Parse(dsn)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = "5432"
	}
	service, at, ok := service(u.Hostname(), namespace)
	if !ok {
		return fmt.Sprintf("It is at %s. Run this command where that address can be reached, or forward it and name the near end with --postgres-address.",
			net.JoinHostPort(u.Hostname(), port))
	}
	return fmt.Sprintf("Forward it in another terminal:\n  kubectl port-forward --namespace %s service/%s 15432:%s\nand repeat this command with --postgres-address localhost:15432; or give a DSN with --dsn or EKIDEN_DSN.",
		at, service, port)
}

// service reads a host as the name of a Service: name, name.namespace, name.namespace.svc and so on.
func service(host, namespace string) (name, in string, ok bool) {
	if net.ParseIP(host) != nil || host == "localhost" {
		return "", "", false
	}
	parts := strings.Split(host, ".")
	switch {
	case len(parts) == 1:
		return parts[0], namespace, true
	case len(parts) == 2, parts[2] == "svc":
		return parts[0], parts[1], true
	default:
		return "", "", false
	}
}
