package supervisor

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
	"github.com/ekiden-dev/ekiden/hack/devcluster/kubeletnode"
	"github.com/ekiden-dev/ekiden/hack/devcluster/launch"
	"github.com/ekiden-dev/ekiden/hack/devcluster/pki"
)

// The Services of the cluster get addresses that only kube-proxy knows: with a
// process node nobody routes them.
const serviceRange = "10.96.0.0/16"

// auditPolicy logs what people and programs write, and all that the manager and
// whatever else runs in its namespace asks for, reads and heartbeats included: by
// that a test knows which of its rights are used. The components' own writes and
// the heartbeats of others would drown it.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:ekiden-system"]
- level: None
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
- level: None
  users: ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "devcluster-node"]
- level: None
  userGroups: ["system:serviceaccounts:kube-system"]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// controlPlane is what the commands of the control plane are made from.
type controlPlane struct {
	dir        cluster.Dir
	ports      cluster.Ports
	executable string // This binary, which is also every component.
	// kubelet is set where the node is one, and network is then its network.
	kubelet *kubeletnode.Config
	network *kubeletnode.Network
}

// host is where pods reach this machine, and where the API server listens.
func (c controlPlane) host() string {
	if c.kubelet != nil {
		return c.kubelet.Host()
	}
	return cluster.Loopback
}

func (c controlPlane) server() string {
	return fmt.Sprintf("https://%s:%d", c.host(), c.ports.APIServer)
}

// prepare writes certificates, kubeconfigs and the audit policy.
func (c controlPlane) prepare() error {
	ca, err := pki.OpenAuthority(c.dir.PKI(), "ca")
	if err != nil {
		return err
	}
	// etcd trusts another authority: whoever gets a certificate from the
	// cluster's must not read its Secrets past the API server.
	etcd, err := pki.OpenAuthority(c.dir.PKI(), "etcd-ca")
	if err != nil {
		return err
	}
	if err := pki.SigningKey(c.dir.PKI(), "sa"); err != nil {
		return err
	}
	loopback := []net.IP{net.ParseIP(cluster.Loopback)}
	if err := issue(etcd,
		pki.Leaf{Name: "etcd", CommonName: "etcd", Server: true, DNSNames: []string{"localhost"}, IPs: loopback},
		pki.Leaf{Name: "apiserver-etcd", CommonName: "kube-apiserver"},
	); err != nil {
		return err
	}
	node, server := pki.Leaf{Name: "node", CommonName: "devcluster-node", Organization: []string{"system:masters"}}, loopback
	if c.kubelet != nil { // It is a node like any other, with the rights of one.
		node.CommonName, node.Organization = "system:node:"+kubeletnode.Name, []string{"system:nodes"}
		server = append(server, net.ParseIP(c.kubelet.Address()))
	}
	if err := issue(ca,
		pki.Leaf{
			Name: "apiserver", CommonName: "kube-apiserver", Server: true,
			DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			IPs:      append(slices.Clone(loopback), net.ParseIP("10.96.0.1"), net.ParseIP(c.host())),
		},
		pki.Leaf{Name: "node-server", CommonName: "devcluster-node", Server: true, DNSNames: []string{"localhost"}, IPs: server},
		pki.Leaf{Name: "apiserver-kubelet", CommonName: "apiserver-kubelet-client", Organization: []string{"system:masters"}},
		pki.Leaf{Name: "front-proxy", CommonName: "front-proxy-client"},
		pki.Leaf{Name: "admin", CommonName: "admin", Organization: []string{"system:masters"}},
		node,
		pki.Leaf{Name: "proxy", CommonName: "system:kube-proxy"},
		pki.Leaf{Name: "controller-manager", CommonName: "system:kube-controller-manager"},
		pki.Leaf{Name: "scheduler", CommonName: "system:kube-scheduler"},
	); err != nil {
		return err
	}
	for _, user := range []string{"admin", "node", "proxy", "controller-manager", "scheduler"} {
		if err := ca.WriteKubeconfig(c.dir.Kubeconfig(user), c.server(), user); err != nil {
			return err
		}
	}
	return os.WriteFile(c.dir.Path("audit-policy.yaml"), []byte(auditPolicy), 0o600)
}

func issue(authority *pki.Authority, leaves ...pki.Leaf) error {
	for _, leaf := range leaves {
		if err := authority.Issue(leaf); err != nil {
			return err
		}
	}
	return nil
}

func (c controlPlane) service(name string, arguments ...string) launch.Service {
	return launch.Service{
		Name: name,
		Log:  c.dir.Log(name),
		Command: func() *exec.Cmd {
			return exec.Command(c.executable, append([]string{name}, arguments...)...)
		},
		Stop: syscall.SIGTERM, Grace: 3 * time.Second, Death: syscall.SIGKILL,
	}
}

func (c controlPlane) pkiFile(name string) string { return c.dir.Path("pki", name) }

func (c controlPlane) etcd() launch.Service {
	client := fmt.Sprintf("https://%s:%d", cluster.Loopback, c.ports.EtcdClient)
	peer := fmt.Sprintf("https://%s:%d", cluster.Loopback, c.ports.EtcdPeer)
	// Without fsync, data is lost only when the machine crashes, not the process.
	return c.service("etcd",
		"--data-dir="+c.dir.Etcd(), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer,
		"--client-cert-auth", "--trusted-ca-file="+c.pkiFile("etcd-ca.crt"),
		"--cert-file="+c.pkiFile("etcd.crt"), "--key-file="+c.pkiFile("etcd.key"),
		"--peer-client-cert-auth", "--peer-trusted-ca-file="+c.pkiFile("etcd-ca.crt"),
		"--peer-cert-file="+c.pkiFile("etcd.crt"), "--peer-key-file="+c.pkiFile("etcd.key"),
	)
}

func (c controlPlane) apiServer() launch.Service {
	return c.service("kube-apiserver", append(c.reached(),
		fmt.Sprintf("--etcd-servers=https://%s:%d", cluster.Loopback, c.ports.EtcdClient),
		"--etcd-cafile="+c.pkiFile("etcd-ca.crt"),
		"--etcd-certfile="+c.pkiFile("apiserver-etcd.crt"), "--etcd-keyfile="+c.pkiFile("apiserver-etcd.key"),
		"--bind-address="+c.host(), "--advertise-address="+c.host(),
		"--secure-port="+strconv.Itoa(c.ports.APIServer), "--service-cluster-ip-range="+serviceRange,
		"--tls-cert-file="+c.pkiFile("apiserver.crt"), "--tls-private-key-file="+c.pkiFile("apiserver.key"),
		"--client-ca-file="+c.pkiFile("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file="+c.pkiFile("sa.key"), "--service-account-key-file="+c.pkiFile("sa.pub"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
		"--allow-privileged=true",
		"--kubelet-certificate-authority="+c.pkiFile("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate="+c.pkiFile("apiserver-kubelet.crt"), "--kubelet-client-key="+c.pkiFile("apiserver-kubelet.key"),
		"--requestheader-client-ca-file="+c.pkiFile("ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+c.pkiFile("front-proxy.crt"), "--proxy-client-key-file="+c.pkiFile("front-proxy.key"),
		"--audit-policy-file="+c.dir.Path("audit-policy.yaml"), "--audit-log-path="+c.dir.Audit(),
	)...)
}

// reached are the flags that depend on whether pods reach the API server at an
// address of the network. Those of a node that is gone are given up after seconds.
func (c controlPlane) reached() []string {
	if c.kubelet == nil {
		return []string{"--endpoint-reconciler-type=none"} // It refuses loopback addresses for the Service "kubernetes".
	}
	return []string{"--default-not-ready-toleration-seconds=5", "--default-unreachable-toleration-seconds=5"}
}

func (c controlPlane) controllerManager() launch.Service {
	arguments := c.client("controller-manager")
	if c.kubelet != nil {
		arguments = append(arguments, "--node-monitor-period=1s", "--node-monitor-grace-period=12s")
	}
	return c.service("kube-controller-manager", append(arguments,
		"--root-ca-file="+c.pkiFile("ca.crt"), "--service-account-private-key-file="+c.pkiFile("sa.key"),
		"--cluster-signing-cert-file="+c.pkiFile("ca.crt"), "--cluster-signing-key-file="+c.pkiFile("ca.key"),
		"--use-service-account-credentials=true",
		// With the default limits, starting all controllers with their own
		// credentials takes 6 s instead of 0.7 s.
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--service-cluster-ip-range="+serviceRange,
		"--flex-volume-plugin-dir="+c.dir.Path("volume-plugins"), // Else it makes one in /usr.
	)...)
}

func (c controlPlane) scheduler() launch.Service {
	return c.service("kube-scheduler", append(c.client("scheduler"), "--kube-api-qps=500", "--kube-api-burst=1000")...)
}

// client are the flags of a component that is only a client of the API server.
func (c controlPlane) client(user string) []string {
	kubeconfig := c.dir.Kubeconfig(user)
	return []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false", "--secure-port=0",
	}
}

func (c controlPlane) node() launch.Service {
	if c.kubelet != nil {
		return c.kubeletNode()
	}
	node := c.service("process-node", "--dir="+string(c.dir), "--port="+strconv.Itoa(c.ports.Node), "--pod-net="+strconv.Itoa(c.ports.PodNet))
	node.Name, node.Log = "node", c.dir.Log("node")
	// Not SIGKILL: it is to end what the pods' processes have started.
	node.Death = syscall.SIGTERM
	node.Grace = 10 * time.Second
	return node
}

func (c controlPlane) kubeletNode() launch.Service {
	return launch.Service{
		Name: "node", Log: c.dir.Log("node"),
		Command: func() *exec.Cmd {
			command := exec.Command(c.executable, "kubelet-node", "--dir="+string(c.dir), "--pod-net="+strconv.Itoa(c.ports.PodNet))
			command.ExtraFiles = []*os.File{c.network.Namespace}
			command.SysProcAttr = kubeletnode.Attributes()
			return command
		},
		Stop: syscall.SIGTERM, Grace: 10 * time.Second, Death: syscall.SIGKILL,
	}
}
