package integration

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/hack/cluster"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/pgtest"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// TestARunThroughAPooler puts pgbouncer in transaction mode before the cluster's Postgres, tells the manager that segments find
// Postgres there, and tells the main job: a read, a question to people, a refund, an answer. It is not parallel, because the
// manager that all share is told something else meanwhile.
func TestARunThroughAPooler(t *testing.T) {
	description, err := shared.Describe()
	if err != nil {
		t.Fatal(err)
	}
	pooler := pgtest.NewPooler(t, description.Postgres.SuperuserDSN)
	address := "127.0.0.1:" + strconv.Itoa(pooler.Port)
	manage := func(args ...string) {
		t.Helper()
		for _, a := range [][]string{args, {"rollout", "status", "deployment/ekiden-manager", "--timeout=120s"}} {
			if _, err := shared.Kubectl(t.Context(), append([]string{"-n", cluster.ManagerNamespace}, a...)...); err != nil {
				t.Fatal(err)
			}
		}
	}
	manage("patch", "deployment/ekiden-manager", "--type=json", "-p",
		`[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--segment-postgres-address=`+address+`"}]`)
	defer manage("rollout", "undo", "deployment/ekiden-manager")

	d := open(t, wants(reads("4711")), wants(refunds(120)), answer("Your money is on its way."))
	d.approvers("finance", "alice")
	d.start("refund")
	d.parked()
	d.approves("alice", d.requested(1, v1alpha1.ApprovalPending)[0].Name)
	r := d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	if c := d.tools.Counts(); c.Effects != 1 || c.Calls[toolserver.GetCustomer] != 1 {
		t.Errorf("the tool server counted %+v", c)
	}
	d.wantRequests(3)
	d.balanced(r, 2)

	var secret corev1.Secret
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: d.namespace, Name: contract.PostgresSecret}, &secret); err != nil {
		t.Fatal(err)
	}
	if dsn := string(secret.Data[contract.PostgresKey]); !strings.Contains(dsn, address) {
		t.Errorf("segments were told another address than %s", address)
	}
	login := "ekiden_" + strings.ReplaceAll(d.uid(), "-", "")
	if n := strings.Count(pooler.Said(t), "ekiden/"+login); n < 2 {
		t.Errorf("the pooler has seen the login %d times, and two segments have worked", n)
	}
}
