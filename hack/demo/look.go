package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// lookAround shows what people who know kubectl would look at.
func (d *demo) lookAround(ctx context.Context, run *v1alpha1.AgentRun) error {
	// The other runs of examples/ are as good as over.
	if _, err := d.cluster.Kubectl(ctx, "wait", "-n", namespace, "--for=condition=Finished", "agentrun", "--all", "--timeout=120s"); err != nil {
		return err
	}
	commands := [][]string{
		{"get", "arun,adef,drev,mep", "-n", namespace},
		{"get", "jobs", "-n", namespace, "-l", v1alpha1.LabelRunUID + "=" + string(run.UID)},
		{"events", "-n", namespace, "--for", "agentrun/" + run.Name},
	}
	for _, args := range commands {
		out, err := d.cluster.Kubectl(ctx, args...)
		if err != nil {
			return err
		}
		d.screen.Quote("kubectl "+strings.Join(args, " "), out)
	}
	return d.result(ctx)
}

// result prints the answer as the plugin of kubectl does.
func (d *demo) result(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, d.bin("kubectl-ekiden"), "result", theRun, "-n", namespace)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+d.cluster.Kubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl ekiden result: %w: %s", err, out)
	}
	d.screen.Quote("kubectl ekiden result "+theRun+" -n "+namespace, string(out))
	if !d.keep {
		d.screen.Plain("KEEP=1 make demo does the same and leaves the cluster up, for you to look around.")
	}
	return nil
}

// tellKept says what can be done with a cluster that was kept.
func (d *demo) tellKept(ctx context.Context) {
	if err := d.model.startOver(ctx); err != nil {
		d.screen.Alarm("model", err.Error())
	}
	d.screen.Plain(fmt.Sprintf(`The cluster stays up. To look around:

  export KUBECONFIG="%s"
  export PATH="%s:$PATH"    # kubectl, and kubectl ekiden
  kubectl config set-context --current --namespace=%s

  kubectl get ekiden
  kubectl describe agentrun %s
  kubectl explain agentrun.spec.limits
  kubectl ekiden transcript %s
  kubectl ekiden doctor

Logs are in %s. To take all of it away: make demo-down`,
		d.cluster.Kubeconfig(), d.own("bin"), namespace, theRun, theRun, d.logs()))
}
