package kubeletnode

import (
	"os"
	"path/filepath"
	"strings"
)

// bridge joins the pods.
const bridge = "pods0"

// Socket is that of containerd, as the node sees it.
const Socket = "/run/containerd/containerd.sock"

// Sandbox is the image that holds a pod's namespaces.
const Sandbox = "localhost/pause:dev"

// snapshotter copies layers instead of laying one over the other: a machine whose root is laid over another one, as in a
// container, could not. Ours have a layer or two.
const snapshotter = "native"

// Some machines keep root from making a process less likely to be killed for want of memory (no CAP_SYS_RESOURCE):
// restrict_oom_score_adj, and oomScoreAdj below, ask for nothing that is refused there.
const containerdConfig = `version = 2
root = "NODE/containerd"
state = "/run/containerd/state"
[grpc]
  address = "SOCKET"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "SANDBOX"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "SNAPSHOTTER"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "PLUGINS"
    conf_dir = "NODE/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      BinaryName = "runc"
`

// Nothing is translated: pods arrive at this machine with their own addresses.
const networkConfig = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [{
  "type": "bridge", "bridge": "BRIDGE", "isGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "NODE/addresses", "ranges": [[{"subnet": "PODS"}]], "routes": [{"dst": "0.0.0.0/0"}]}
}]}
`

// A node that is gone is missed after some seconds, see the controller manager's grace, and a container that dies is
// back after some: whoever kills them in a test waits for both.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: ADDRESS
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: PKI/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: PKI/node-server.crt
tlsPrivateKeyFile: PKI/node-server.key
containerRuntimeEndpoint: unix://SOCKET
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: CGROUP
cgroupsPerQOS: true
enforceNodeAllocatable: [pods]
oomScoreAdj: 0
failSwapOn: false
resolvConf: ""
podLogsDir: PODLOGS
volumePluginDir: NODE/volume-plugins
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
serializeImagePulls: false
registryPullQPS: 0
eventRecordQPS: 0
kubeAPIQPS: 200
kubeAPIBurst: 400
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: 8
crashLoopBackOff: {maxContainerRestartPeriod: 2s}
`

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: PROXYKUBECONFIG}
clusterCIDR: PODS
hostnameOverride: NAME
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`

// configure writes the files of the node's programs.
func (c Config) configure() error {
	words := strings.NewReplacer(
		"NODE", c.path(), "SOCKET", Socket, "SANDBOX", Sandbox, "SNAPSHOTTER", snapshotter, "PLUGINS", plugins, "BRIDGE", bridge, "PODLOGS", c.Dir.PodLogs(),
		"PODS", c.Pods(), "ADDRESS", c.Address(), "PKI", c.Dir.PKI(), "CGROUP", c.Cgroup(), "NAME", Name,
		"PROXYKUBECONFIG", c.Dir.Kubeconfig("proxy"),
	)
	for name, template := range map[string]string{
		"containerd.toml": containerdConfig, "cni/10-pods.conflist": networkConfig, "kubelet.yaml": kubeletConfig, "proxy.yaml": proxyConfig,
	} {
		path := c.path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(words.Replace(template)), 0o600); err != nil {
			return err
		}
	}
	return nil
}
