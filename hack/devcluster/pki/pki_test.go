package pki

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestLeavesAreTrustedByTheirAuthorityAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, err := OpenAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	other, err := OpenAuthority(dir, "other")
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Issue(Leaf{Name: "server", CommonName: "server", Server: true, IPs: []net.IP{net.ParseIP("127.0.0.1")}}); err != nil {
		t.Fatal(err)
	}
	raw, err := readPEM(filepath.Join(dir, "server.crt"))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	trusts := func(a *Authority) error {
		roots := x509.NewCertPool()
		roots.AddCert(a.certificate)
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"})
		return err
	}
	if err := trusts(ca); err != nil {
		t.Errorf("its own authority: %v", err)
	}
	if err := trusts(other); err == nil {
		t.Error("another authority trusts it")
	}
}

func TestAnAuthorityIsTheSameWhenOpenedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := OpenAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	if !first.certificate.Equal(again.certificate) {
		t.Error("it has another certificate")
	}
}

func TestAKubeconfigIsForItsUserAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, err := OpenAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Issue(Leaf{Name: "admin", CommonName: "admin"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := ca.WriteKubeconfig(path, "https://127.0.0.1:6443", "admin"); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil || config.Host != "https://127.0.0.1:6443" {
		t.Errorf("the kubeconfig names %v, %v", config, err)
	}
	if information, err := os.Stat(path); err != nil || information.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", information.Mode(), err)
	}
}
