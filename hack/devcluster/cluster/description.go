package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Description is the contract with programs that use the cluster (cluster.json).
type Description struct {
	Dir        string `json:"dir"`
	Kubeconfig string `json:"kubeconfig"`
	Server     string `json:"server"`
	// HostAddress is where pods reach this machine: a server that they are to
	// reach listens there.
	HostAddress string    `json:"hostAddress"`
	Node        *Node     `json:"node,omitempty"`
	Postgres    *Postgres `json:"postgres,omitempty"`
	// PIDs change when a process is restarted.
	PIDs       map[string]int `json:"pids"`
	ImagesFile string         `json:"imagesFile"`
}

// Kinds of nodes.
const (
	// ProcessNode runs pods as processes of this machine.
	ProcessNode = "process"
	// KubeletNode is a kubelet with containerd.
	KubeletNode = "kubelet"
)

// States of a node.
const (
	NodeRunning = "running"
	NodeStopped = "stopped"
)

// Node says what runs the pods.
type Node struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	State string `json:"state"`
	// Containerd is the socket of a kubelet's node that runs, for ctr.
	Containerd string `json:"containerd,omitempty"`
	// Cgroup is the control group of the pods of a kubelet's node: their
	// processes have it in /proc/PID/cgroup.
	Cgroup string `json:"cgroup,omitempty"`
}

// Postgres says how to reach the database server: pods at Host, with a password;
// the superuser on loopback only.
type Postgres struct {
	Host         string `json:"host"`
	Port         int    `json:"port"`
	SuperuserDSN string `json:"superuserDSN"`
}

// LocalPostgres describes the server on a port of this machine, which pods reach at host.
func LocalPostgres(host string, port int) *Postgres {
	return &Postgres{
		Host:         host,
		Port:         port,
		SuperuserDSN: fmt.Sprintf("postgres://postgres@%s:%d/postgres?sslmode=disable", Loopback, port),
	}
}

// Read returns the description of a ready cluster.
func (d Dir) Read() (Description, error) {
	var description Description
	return description, readJSON(d.Description(), &description)
}

// Write publishes the description; a reader sees the old one or the new one, never half.
func (d Dir) Write(description Description) error {
	return writeJSON(d.Description(), description)
}

func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// writeJSON replaces path in one step.
func writeJSON(path string, from any) error {
	content, err := json.MarshalIndent(from, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	// CreateTemp makes the file 0600.
	draft, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = draft.Write(append(content, '\n'))
	if closed := draft.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		_ = os.Remove(draft.Name())
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
