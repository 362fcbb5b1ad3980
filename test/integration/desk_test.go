package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// toolCanary is the key of the tool server. It may be seen in one place only: the header of a request to that server.
const toolCanary = "tk-canary-5e77a1"

// desk is a story whose agent has a tool of each kind, and whose policy asks people of the pool finance about refunds.
type desk struct {
	*story
	tools *toolserver.Server
	// forgetful says that the journal is set back in the story, so that it does not know of all that was done.
	forgetful bool
}

// open begins a story with a tool server that speaks MCP.
func open(t *testing.T, steps ...modelserver.Step) *desk {
	t.Helper()
	return openWith(t, toolserver.Options{RequireKey: toolCanary}, nil, steps...)
}

func openWith(t *testing.T, o toolserver.Options, change func(*v1alpha1.ToolServer), steps ...modelserver.Step) *desk {
	t.Helper()
	return openFor(t, o, change, nil, steps...)
}

func openFor(t *testing.T, o toolserver.Options, change func(*v1alpha1.ToolServer), agent []func(*v1alpha1.AgentDefinition), steps ...modelserver.Step) *desk {
	t.Helper()
	d := &desk{story: tell(t, steps...), tools: toolserver.Start(t, o)}
	server := given.MCPServer(d.namespace, d.tools.URL+"/mcp", declared, func(s *v1alpha1.ToolServer) {
		s.Spec.Credentials = v1alpha1.Credentials{SecretRef: v1alpha1.KeyReference{Name: "llm", Key: "toolKey"}}
	})
	if change != nil {
		change(server)
	}
	key := d.key()
	key.StringData["toolKey"] = toolCanary
	d.create(key, given.Endpoint(d.namespace, d.model.URL), server, d.policy(finance),
		given.Definition(d.namespace, append(agent, given.Uses(given.Tools, toolserver.GetCustomer, toolserver.Refund))...))
	t.Cleanup(d.lawful)
	return d
}

// lawful checks the law of the journal over all runs of a story, however they stand: a refund is carried out at most once for
// each intent, and each that was answered was carried out; what has a result was begun, and of a run that succeeded no call is
// open.
func (d *desk) lawful() {
	d.Helper()
	if d.forgetful {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.Context()), time.Minute) // the story is over, and so is its context
	defer cancel()
	description, err := shared.Describe()
	if err != nil {
		d.Fatal(err)
	}
	config, err := pgx.ParseConfig(description.Postgres.SuperuserDSN)
	if err != nil {
		d.Fatal(err)
	}
	config.Database = "ekiden"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		d.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing is left to lose
	count := func(which string) (n int) {
		d.Helper()
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM ekiden.calls c JOIN ekiden.runs r USING (run_uid) WHERE r.namespace = $1 AND `+which, d.namespace).Scan(&n); err != nil {
			d.Fatal(err)
		}
		return n
	}
	const refund = `c.tool LIKE '%/refund' AND `
	answered := count(refund + `c.kind = 'answered'`)
	c := d.tools.Counts() // between the two, for a segment may still be at work
	begun := count(refund + `c.begun_at IS NOT NULL`)
	if paid := c.Calls[toolserver.Refund]; paid > begun || paid < answered {
		d.Errorf("broken law: %d refunds were carried out for %d intents, of which %d are answered", paid, begun, answered)
	}
	if n := count(`c.kind IS NULL AND r.end_phase = 'Succeeded'`); n != 0 {
		d.Errorf("broken law: %d calls are open of runs that succeeded", n)
	}
	if n := count(`c.kind IN ('answered', 'failed', 'indeterminate') AND c.begun_at IS NULL`); n != 0 {
		d.Errorf("broken law: %d calls have a result and no intent", n)
	}
	d.Logf("law of the journal: %d intents, %d refunds carried out, %d answered", begun, c.Calls[toolserver.Refund], answered)
}

func declared(s *v1alpha1.ToolServer) {
	s.Spec.Tools = []v1alpha1.ToolDeclaration{
		{Name: toolserver.GetCustomer, Effect: v1alpha1.EffectRead, TimeoutSeconds: 20}, {Name: toolserver.Refund, Effect: v1alpha1.EffectSend, TimeoutSeconds: 20},
	}
}

// finance asks one person of the pool finance about everything that is sent.
var finance = v1alpha1.PolicyRule{
	Name: "money", Match: v1alpha1.PolicyMatch{Effects: []v1alpha1.Effect{v1alpha1.EffectSend}}, Action: v1alpha1.PolicyRequireApproval,
	Approval: v1alpha1.PolicyApproval{Pool: "finance", Seats: 1, ExpiresSeconds: 3600},
}

func asking(change func(*v1alpha1.PolicyApproval)) v1alpha1.PolicyRule {
	r := *finance.DeepCopy()
	change(&r.Approval)
	return r
}

func (s *story) policy(rules ...v1alpha1.PolicyRule) *v1alpha1.AgentPolicy {
	return &v1alpha1.AgentPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: v1alpha1.DefaultPolicyName}, Spec: v1alpha1.AgentPolicySpec{Rules: rules},
	}
}

// rule replaces the rules of the policy, and waits until they are in force.
func (s *story) rule(rules ...v1alpha1.PolicyRule) {
	s.Helper()
	p := s.policy()
	s.eventually("the policy is changed", func() bool {
		if api.Get(s.Context(), client.ObjectKeyFromObject(p), p) != nil {
			return false
		}
		p.Spec.Rules = rules
		return api.Update(s.Context(), p) == nil
	})
	s.eventually("the policy is in force", func() bool {
		return api.Get(s.Context(), client.ObjectKeyFromObject(p), p) == nil && p.Status.ObservedGeneration == p.Generation
	})
}

// wants is an answer that calls tools, by their names on the server.
func wants(calls ...modelserver.Call) modelserver.Step {
	for i := range calls {
		calls[i].ID = cmp.Or(calls[i].ID, fmt.Sprintf("call-%d", i))
		calls[i].Name = given.Tools + "__" + calls[i].Name
	}
	return modelserver.Step{Calls: &modelserver.Calls{List: calls}}
}

func reads(id string) modelserver.Call {
	return modelserver.Call{Name: toolserver.GetCustomer, Arguments: fmt.Sprintf(`{"id":%q}`, id)}
}

func refunds(amount int) modelserver.Call {
	return modelserver.Call{Name: toolserver.Refund, Arguments: fmt.Sprintf(`{"id":"4711","amount":"%d"}`, amount)}
}

// approvers gives people the right to read requests and to approve those of a pool.
func (s *story) approvers(pool string, people ...string) {
	s.Helper()
	var subjects []rbacv1.Subject
	for _, p := range people {
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: p})
	}
	s.create(
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "approve-" + pool},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"approverpools"}, ResourceNames: []string{pool}, Verbs: []string{"approve"}}},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "approve-" + pool}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "approve-" + pool},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "approver-" + pool}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "ekiden-approver"},
		},
	)
}

// requested are the run's approval requests in a phase, by name. It waits until there are n.
func (s *story) requested(n int, phase v1alpha1.ApprovalPhase) []v1alpha1.ApprovalRequest {
	s.Helper()
	var found []v1alpha1.ApprovalRequest
	s.eventually(fmt.Sprintf("%d requests are %s", n, phase), func() bool {
		var list v1alpha1.ApprovalRequestList
		if api.List(s.Context(), &list, client.InNamespace(s.namespace)) != nil {
			return false
		}
		found = slices.DeleteFunc(list.Items, func(r v1alpha1.ApprovalRequest) bool { return r.Status.Phase != phase })
		return len(found) == n
	})
	slices.SortFunc(found, func(a, b v1alpha1.ApprovalRequest) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// says is what a person decides with kubectl, and what they read if they may not.
func (s *story) says(person, request, decision string) (refusal string) {
	s.Helper()
	_, err := shared.Kubectl(s.Context(), "--as", person, "-n", s.namespace, "patch", "areq", request, "--type", "merge", "-p", fmt.Sprintf(`{"spec":{"decision":%s}}`, decision))
	if err != nil {
		return err.Error()
	}
	return ""
}

// approves has a person approve.
func (s *story) approves(person, request string) {
	s.Helper()
	if refusal := s.says(person, request, `{"verdict":"Approved"}`); refusal != "" {
		s.Fatalf("%s may not approve %s: %s", person, request, refusal)
	}
}

// parked waits until the run named refund waits for people.
func (s *story) parked() *v1alpha1.AgentRun {
	s.Helper()
	return s.until("refund", "waits", func(r *v1alpha1.AgentRun) bool { return r.Status.Phase == v1alpha1.RunWaiting })
}

// segments are the Jobs of runs: a discovery is none.
func (s *story) segments() []batchv1.Job {
	s.Helper()
	return slices.DeleteFunc(s.jobs(), func(j batchv1.Job) bool { return j.Labels[v1alpha1.LabelSegment] == "" })
}

// reason is why a run stands as it does.
func reason(r *v1alpha1.AgentRun) string {
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionSucceeded); c != nil {
		return c.Reason
	}
	return ""
}

// journal is what Postgres has of the calls of a run.
type journalRow struct {
	Tool, Kind, Code, Text string
	Begun                  bool
	By                     []string
}

func (s *story) journal(run *v1alpha1.AgentRun) []journalRow {
	s.Helper()
	conn := superuser(s.T)
	defer conn.Close(s.Context()) //nolint:errcheck // it is closed again at the end of the story; stories look often
	var out string
	if err := conn.QueryRow(s.Context(), `SELECT coalesce(jsonb_agg(jsonb_build_object('Tool', tool, 'Kind', coalesce(kind, ''), 'Code', coalesce(code, ''), 'Text', coalesce(text, ''),
  'Begun', begun_at IS NOT NULL, 'By', approved_by) ORDER BY turn, idx), '[]')::text FROM ekiden.calls WHERE run_uid = $1`, string(run.UID)).Scan(&out); err != nil {
		s.Fatal(err)
	}
	var rows []journalRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		s.Fatal(err)
	}
	return rows
}

// balanced checks the law of the journal: what reached a tool was begun, and what was begun is settled.
func (d *desk) balanced(run *v1alpha1.AgentRun, calls int) {
	d.Helper()
	begun := 0
	for _, row := range d.journal(run) {
		if row.Begun {
			begun++
		}
		if row.Kind == "" {
			d.Errorf("a call of %s is not settled", row.Tool)
		}
	}
	c := d.tools.Counts()
	if got := c.Calls[toolserver.GetCustomer] + c.Calls[toolserver.Refund]; got != calls {
		d.Errorf("the tools carried out %d calls, want %d: %+v", got, calls, c)
	}
	if begun < calls {
		d.Errorf("%d calls reached tools and %d intents are in the journal", calls, begun)
	}
}
