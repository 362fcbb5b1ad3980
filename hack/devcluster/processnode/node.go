// Package processnode is a Kubernetes node whose containers are local processes.
//
// It registers a Node, and runs the command of every container of the pods bound
// to it as a process of this machine: no images, no isolation, no root. What a
// container is told about its surroundings (volumes, addresses, credentials) is
// laid out in the pod's folder, and the paths in its command and environment are
// changed to point there.
//
// virtual-kubelet keeps the Node object and its lease, and serves the kubelet's
// HTTP routes. The pods are ours: virtual-kubelet's controller holds a deleted
// pod for its whole grace period, loses the order of environment variables and
// reads Secrets from a cache that lags behind the pod that needs them.
//
//	Agent ── pod ─┬─ container ── process
//	              ├─ volumes
//	              └─ report ── status of the pod in the API
package processnode

import (
	"context"
	"fmt"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/log"
	"github.com/virtual-kubelet/virtual-kubelet/log/klogv2"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	componentversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
)

// Name of the node. A cluster has one.
const Name = "process-node"

// Config of the node.
type Config struct {
	Dir    cluster.Dir
	Port   int
	PodNet int
}

// Run is the node until the context ends; then its pods are stopped.
func Run(ctx context.Context, config Config) error {
	log.L = klogv2.New(nil)
	rest, err := clientcmd.BuildConfigFromFlags("", config.Dir.Kubeconfig("node"))
	if err != nil {
		return fmt.Errorf("reading the node's kubeconfig: %w", err)
	}
	rest.QPS = -1 // The API server protects itself.
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return fmt.Errorf("making the node's client: %w", err)
	}
	agent, err := newAgent(config, client, rest.Host)
	if err != nil {
		return err
	}
	if err := agent.serve(ctx); err != nil {
		return err
	}
	go keepRegistered(ctx, client, config.Port)
	return agent.Run(ctx)
}

// keepRegistered keeps the Node object and its lease up to date. The controller
// gives up when it cannot register at first; the API server may just be restarting.
func keepRegistered(ctx context.Context, client kubernetes.Interface, port int) {
	for ctx.Err() == nil {
		controller, err := node.NewNodeController(node.NaiveNodeProvider{}, describe(port), client.CoreV1().Nodes(),
			node.WithNodeEnableLeaseV1(client.CoordinationV1().Leases(corev1.NamespaceNodeLease), node.DefaultLeaseDuration))
		if err == nil {
			err = controller.Run(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		klog.ErrorS(err, "Keeping the node registered")
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// capacity is what the scheduler counts with; nothing enforces it.
func capacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("100"),
		corev1.ResourceMemory:           resource.MustParse("100Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		corev1.ResourcePods:             resource.MustParse("1000"),
	}
}

func describe(port int) *corev1.Node {
	info := componentversion.Get()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
		now := metav1.Now()
		return corev1.NodeCondition{Type: kind, Status: status, Reason: "ProcessNode", LastHeartbeatTime: now, LastTransitionTime: now}
	}
	kubelet := info.GitVersion
	if _, err := version.ParseSemantic(kubelet); err != nil {
		kubelet = "v0.0.0"
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name,
			Labels: map[string]string{
				corev1.LabelHostname: Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: machine(),
				"node.kubernetes.io/process": "true",
			},
		},
		Status: corev1.NodeStatus{
			Phase:       corev1.NodeRunning,
			Capacity:    capacity(),
			Allocatable: capacity(),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: cluster.Loopback},
				{Type: corev1.NodeHostName, Address: Name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: kubelet, OperatingSystem: "linux", Architecture: machine(),
				ContainerRuntimeVersion: "process://1", OSImage: "local processes",
			},
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeReady, corev1.ConditionTrue),
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse),
				condition(corev1.NodeNetworkUnavailable, corev1.ConditionFalse),
			},
		},
	}
}
