package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// kubectl runs kubectl as the administrator, its plugin included, and returns all that it prints.
func (d *demo) kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, d.own("bin/kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+d.cluster.Kubeconfig(), "PATH="+d.own("bin")+":"+os.Getenv("PATH"))
	cmd.Dir = d.repo
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", typed(args), err, strings.TrimSpace(string(out)))
	}
	return string(out), err
}

// show runs kubectl and shows it, with what it printed.
func (d *demo) show(ctx context.Context, args ...string) error {
	out, err := d.kubectl(ctx, args...)
	if err == nil {
		d.screen.Quote(typed(args), out)
	}
	return err
}

// typed is a command of kubectl as one would type it.
func typed(args []string) string {
	line := "kubectl"
	for _, a := range args {
		name, value, assigned := strings.Cut(a, "={")
		switch {
		case assigned:
			a = name + "='{" + value + "'"
		case strings.ContainsAny(a, ` "{}$*!`):
			a = "'" + a + "'"
		}
		line += " " + a
	}
	return line
}

// lookAround shows what people who know kubectl would look at.
func (d *demo) lookAround(ctx context.Context, run *v1alpha1.AgentRun) error {
	// The other runs of examples/ are as good as over.
	if _, err := d.kubectl(ctx, "wait", "-n", namespace, "--for=condition=Finished", "agentrun", "--all", "--timeout=120s"); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"get", "arun,adef,drev,mep,tsrv", "-n", namespace},
		{"get", "jobs", "-n", namespace, "-l", ofRun(run)},
		{"events", "-n", namespace, "--for", "agentrun/" + run.Name},
		{"ekiden", "result", run.Name, "-n", namespace},
	} {
		if err := d.show(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// ofRun selects what belongs to a run.
func ofRun(run *v1alpha1.AgentRun) string { return v1alpha1.LabelRunUID + "=" + string(run.UID) }

// tellKept says what can be done with a cluster that was kept.
func (d *demo) tellKept(ctx context.Context) {
	if err := d.model.startOver(ctx); err != nil {
		d.screen.Alarm("model", err.Error())
	}
	tools := "none"
	if d.tools != nil {
		tools = d.tools.url("/counts")
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

To have a call wait again, and to decide on it:

  sed s/-4716/-again/ %s | kubectl apply -f -
  kubectl ekiden approvals
  kubectl ekiden approve NAME --as %s --as-group %s

What the tools have counted: %s

Logs are in %s. To take all of it away: make demo-down`,
		d.cluster.Kubeconfig(), d.own("bin"), namespace, theRun, theRefund, refundFile, approver, approvers, tools, d.logs()))
}
