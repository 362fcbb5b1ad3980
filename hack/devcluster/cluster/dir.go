// Package cluster knows how one development cluster lies on disk: the names of
// its files, the description that other programs read, and its ports.
//
// Everything of a cluster is below one directory. Nothing outside it belongs to
// the cluster, except Postgres' data when its user cannot reach the directory.
package cluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// Dir is the absolute path of a cluster's directory.
type Dir string

// Open returns the directory at path, which need not exist yet.
func Open(path string) (Dir, error) {
	if path == "" {
		return "", fmt.Errorf("name the directory of the cluster with --dir")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", path, err)
	}
	return Dir(absolute), nil
}

// Create makes the directory and its folders, each closed to other users.
//
// As root the directory itself can be passed through, but not listed, so that
// the user Postgres runs as reaches its own folder; every folder and file below
// stays closed.
func (d Dir) Create() error {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	if err := os.MkdirAll(string(d), mode); err != nil {
		return fmt.Errorf("creating the cluster's directory: %w", err)
	}
	if err := os.Chmod(string(d), mode); err != nil {
		return fmt.Errorf("closing the cluster's directory: %w", err)
	}
	for _, folder := range []string{d.PKI(), d.Etcd(), d.Pods(), d.Logs(), d.PodLogs()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fmt.Errorf("creating a folder of the cluster: %w", err)
		}
	}
	return nil
}

// Path joins names to the directory.
func (d Dir) Path(names ...string) string {
	return filepath.Join(append([]string{string(d)}, names...)...)
}

// The folders.

// PKI holds certificates and keys.
func (d Dir) PKI() string { return d.Path("pki") }

// Etcd holds etcd's data.
func (d Dir) Etcd() string { return d.Path("etcd") }

// Pods holds one folder for each pod, named by its UID.
func (d Dir) Pods() string { return d.Path("pods") }

// Logs holds NAME.log of each process of the cluster.
func (d Dir) Logs() string { return d.Path("logs") }

// PodLogs holds the output of containers; it outlives the pods.
func (d Dir) PodLogs() string { return d.Path("logs", "pods") }

// The files.

// Description is the file other programs read; it exists while the cluster is ready.
func (d Dir) Description() string { return d.Path("cluster.json") }

// Images maps image names to binaries.
func (d Dir) Images() string { return d.Path("images.json") }

// Kubeconfig is the configuration of the named user.
func (d Dir) Kubeconfig(user string) string { return d.Path(user + ".kubeconfig") }

// Ports remembers the ports between two starts of the same cluster.
func (d Dir) Ports() string { return d.Path("ports.json") }

// NodeWanted holds the state in which the node is wanted, after it was asked for another.
func (d Dir) NodeWanted() string { return d.Path("node.wanted") }

// PID holds the process id of the supervisor.
func (d Dir) PID() string { return d.Path("supervisor.pid") }

// Log is the log of the named process.
func (d Dir) Log(name string) string { return d.Path("logs", name+".log") }

// Audit is the audit log of the API server, one JSON object a line.
func (d Dir) Audit() string { return d.Path("logs", "audit.jsonl") }
