// Package pki makes the certificates and kubeconfigs of a development cluster.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is that of every certificate: a development cluster does not live longer.
const validity = 365 * 24 * time.Hour

// Authority signs the certificates of one trust domain. Its files are
// NAME.crt and NAME.key in its folder, beside those of the leaves.
type Authority struct {
	dir, name   string
	certificate *x509.Certificate
	key         crypto.Signer
}

// Leaf is what a certificate says about its holder.
type Leaf struct {
	Name         string // of the files
	CommonName   string
	Organization []string
	DNSNames     []string
	IPs          []net.IP
	Server       bool // A server's certificate is also one of a client: etcd calls itself.
}

// OpenAuthority returns the authority whose files are in dir, made on first use
// so that kubeconfigs handed out stay valid when the cluster is started again.
func OpenAuthority(dir, name string) (*Authority, error) {
	authority := &Authority{dir: dir, name: name}
	err := authority.load()
	if errors.Is(err, fs.ErrNotExist) {
		err = authority.create()
	}
	if err != nil {
		return nil, fmt.Errorf("opening the authority %s: %w", name, err)
	}
	return authority, nil
}

// CertificateFile is where the authority's own certificate is.
func (a *Authority) CertificateFile() string { return filepath.Join(a.dir, a.name+".crt") }

// KeyFile is where the authority's own key is.
func (a *Authority) KeyFile() string { return filepath.Join(a.dir, a.name+".key") }

func (a *Authority) load() error {
	certificate, err := readPEM(a.CertificateFile())
	if err != nil {
		return err
	}
	key, err := readPEM(a.KeyFile())
	if err != nil {
		return err
	}
	if a.certificate, err = x509.ParseCertificate(certificate); err != nil {
		return err
	}
	a.key, err = x509.ParseECPrivateKey(key)
	return err
}

func (a *Authority) create() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := newTemplate(pkix.Name{CommonName: "devcluster-" + a.name})
	if err != nil {
		return err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	a.key, a.certificate = key, template
	if err := a.sign(a.name, template, key); err != nil {
		return err
	}
	return a.load()
}

// Issue writes NAME.crt and NAME.key for the leaf.
func (a *Authority) Issue(leaf Leaf) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the key of %s: %w", leaf.Name, err)
	}
	template, err := newTemplate(pkix.Name{CommonName: leaf.CommonName, Organization: leaf.Organization})
	if err != nil {
		return fmt.Errorf("describing %s: %w", leaf.Name, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if leaf.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		template.DNSNames, template.IPAddresses = leaf.DNSNames, leaf.IPs
	}
	if err := a.sign(leaf.Name, template, key); err != nil {
		return fmt.Errorf("issuing the certificate of %s: %w", leaf.Name, err)
	}
	return nil
}

func (a *Authority) sign(name string, template *x509.Certificate, key *ecdsa.PrivateKey) error {
	certificate, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(a.dir, name+".key"), "EC PRIVATE KEY", encoded); err != nil {
		return err
	}
	return writePEM(filepath.Join(a.dir, name+".crt"), "CERTIFICATE", certificate)
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour), // Clocks of virtual machines jump.
		NotAfter:     now.Add(validity),
	}, nil
}

// SigningKey makes NAME.key and NAME.pub, with which service account tokens are
// signed, unless they are there.
func SigningKey(dir, name string) error {
	private, public := filepath.Join(dir, name+".key"), filepath.Join(dir, name+".pub")
	if _, err := os.Stat(public); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the key that signs tokens: %w", err)
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding the key that signs tokens: %w", err)
	}
	encodedPublic, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encoding the key that checks tokens: %w", err)
	}
	if err := writePEM(private, "EC PRIVATE KEY", encoded); err != nil {
		return err
	}
	return writePEM(public, "PUBLIC KEY", encodedPublic)
}

func readPEM(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s is not PEM", path)
	}
	return block.Bytes, nil
}

func writePEM(path, kind string, content []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
}
