// Package component runs one Kubernetes component, or etcd, inside this process.
//
// Each of them owns the process it runs in: they install signal handlers and
// register metrics globally. So a process is exactly one component for its whole
// life, and the supervisor starts this same binary once for each.
package component

import (
	"context"
	"maps"
	"os"
	"slices"
	_ "time/tzdata" // CronJobs with a timeZone must work on machines without zoneinfo.

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlerror "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// components start from os.Args, where the name has taken the place of the binary.
// They return the exit code of the process.
var components = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kube-proxy":              func() int { return cli.Run(proxy.NewProxyCommand()) },
	"kubectl": func() int {
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlerror.CheckErr(err)
		}
		return 0
	},
}

// Names lists the components of this binary in alphabetical order.
func Names() []string { return slices.Sorted(maps.Keys(components)) }

// Known says whether name is a component of this binary.
func Known(name string) bool { return components[name] != nil }

// Run becomes the named component with these arguments and returns its exit code.
func Run(name string, args []string) int {
	os.Args = append([]string{name}, args...)
	return components[name]()
}
