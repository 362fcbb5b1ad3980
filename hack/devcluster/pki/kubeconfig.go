package pki

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes the configuration of the leaf of that name for a server.
func (a *Authority) WriteKubeconfig(path, server, leaf string) error {
	certificate, err := os.ReadFile(filepath.Join(a.dir, leaf+".crt"))
	if err != nil {
		return fmt.Errorf("reading the certificate of %s: %w", leaf, err)
	}
	key, err := os.ReadFile(filepath.Join(a.dir, leaf+".key"))
	if err != nil {
		return fmt.Errorf("reading the key of %s: %w", leaf, err)
	}
	authority, err := os.ReadFile(a.CertificateFile())
	if err != nil {
		return fmt.Errorf("reading the authority's certificate: %w", err)
	}

	const name = "devcluster"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	config.AuthInfos[leaf] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: leaf}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", leaf, err)
	}
	return nil
}
