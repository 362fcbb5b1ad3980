package supervisor

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
	"github.com/ekiden-dev/ekiden/hack/devcluster/pki"
)

// The Services of the cluster get addresses nobody routes: there is no kube-proxy.
const serviceRange = "10.96.0.0/16"

// auditPolicy logs what people and programs write. The components' own writes
// and the heartbeats would drown it.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
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
}

func (c controlPlane) server() string {
	return fmt.Sprintf("https://%s:%d", cluster.Loopback, c.ports.APIServer)
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
	if err := issue(ca,
		pki.Leaf{
			Name: "apiserver", CommonName: "kube-apiserver", Server: true,
			DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			IPs:      append(loopback, net.ParseIP("10.96.0.1")),
		},
		pki.Leaf{Name: "node-server", CommonName: "devcluster-node", Server: true, DNSNames: []string{"localhost"}, IPs: loopback},
		pki.Leaf{Name: "apiserver-kubelet", CommonName: "apiserver-kubelet-client", Organization: []string{"system:masters"}},
		pki.Leaf{Name: "front-proxy", CommonName: "front-proxy-client"},
		pki.Leaf{Name: "admin", CommonName: "admin", Organization: []string{"system:masters"}},
		pki.Leaf{Name: "node", CommonName: "devcluster-node", Organization: []string{"system:masters"}},
		pki.Leaf{Name: "controller-manager", CommonName: "system:kube-controller-manager"},
		pki.Leaf{Name: "scheduler", CommonName: "system:kube-scheduler"},
	); err != nil {
		return err
	}
	for _, user := range []string{"admin", "node", "controller-manager", "scheduler"} {
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

func (c controlPlane) service(name string, arguments ...string) service {
	return service{
		name: name,
		log:  c.dir.Log(name),
		command: func() *exec.Cmd {
			return exec.Command(c.executable, append([]string{name}, arguments...)...)
		},
		stop: syscall.SIGTERM, grace: 3 * time.Second, death: syscall.SIGKILL,
	}
}

func (c controlPlane) pkiFile(name string) string { return c.dir.Path("pki", name) }

func (c controlPlane) etcd() service {
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

func (c controlPlane) apiServer() service {
	return c.service("kube-apiserver",
		fmt.Sprintf("--etcd-servers=https://%s:%d", cluster.Loopback, c.ports.EtcdClient),
		"--etcd-cafile="+c.pkiFile("etcd-ca.crt"),
		"--etcd-certfile="+c.pkiFile("apiserver-etcd.crt"), "--etcd-keyfile="+c.pkiFile("apiserver-etcd.key"),
		"--bind-address="+cluster.Loopback, "--advertise-address="+cluster.Loopback,
		"--secure-port="+strconv.Itoa(c.ports.APIServer), "--service-cluster-ip-range="+serviceRange,
		"--endpoint-reconciler-type=none", // It refuses loopback addresses for the Service "kubernetes".
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
	)
}

func (c controlPlane) controllerManager() service {
	return c.service("kube-controller-manager", append(c.client("controller-manager"),
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

func (c controlPlane) scheduler() service {
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

func (c controlPlane) node() service {
	node := c.service("node", "--dir="+string(c.dir), "--port="+strconv.Itoa(c.ports.Node), "--pod-net="+strconv.Itoa(c.ports.PodNet))
	// Not SIGKILL: it is to end what the pods' processes have started.
	node.death = syscall.SIGTERM
	node.grace = 10 * time.Second
	return node
}
