package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/given"
)

// TestAPodHasNothingButItsOwn looks at a pod's object, at its process and at its login.
func TestAPodHasNothingButItsOwn(t *testing.T) {
	t.Parallel()
	s := tell(t, gated("go", answer("x"))).setUp()
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: s.namespace}, StringData: map[string]string{"k": "another-secret"}})
	r := s.start("bare")
	s.requests(1)
	pods := s.pods()
	if len(pods) != 1 {
		t.Fatalf("%d pods", len(pods))
	}
	var secrets []string
	for _, v := range pods[0].Spec.Volumes {
		if v.Projected != nil {
			t.Errorf("volume %s: a token is mounted", v.Name)
		}
		if v.Secret != nil {
			secrets = append(secrets, v.Secret.SecretName)
		}
	}
	if got := strings.Join(secrets, " "); got != contract.PostgresSecret+" llm" {
		t.Errorf("secrets %s", got)
	}
	pids := processes(t, "segment", "--run="+string(r.UID))
	if len(pids) != 1 {
		t.Fatalf("%d processes", len(pids))
	}
	environ, err := os.ReadFile(filepath.Join("/proc", itoa(pids[0]), "environ"))
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"KUBECONFIG", canary, "another-secret"}
	if !onKubelet() { // a kubelet tells every pod where the API is, and nobody a way in
		words = append(words, "KUBERNETES_")
	}
	for _, word := range words {
		if strings.Contains(string(environ), word) {
			t.Errorf("the environment of the pod has %s", word)
		}
	}
	s.model.Open("go")
	s.want(s.finished("bare"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	s.noCanary("bare")
}

// noCanary looks for the model's key wherever people look.
func (s *story) noCanary(name string) {
	s.Helper()
	for _, args := range [][]string{
		{"get", "arun,job,pod,event", "-o", "yaml"},
		{"describe", "arun", name},
		{"logs", "-l", "app.kubernetes.io/name=ekiden-segment", "--tail=-1"},
	} {
		out, err := shared.Kubectl(s.Context(), append([]string{"-n", s.namespace}, args...)...)
		if err != nil {
			s.Error(err)
		}
		if strings.Contains(out, canary) {
			s.Errorf("kubectl %s shows the model's key", strings.Join(args, " "))
		}
	}
}

func TestALoginReadsNothingOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	mine, theirs := tell(t, answer("mine")).setUp(), tell(t, answer("theirs")).setUp()
	mine.start("r")
	theirs.start("r")
	mine.finished("r")
	other := theirs.finished("r")
	conn := mine.login()
	if _, err := conn.Exec(t.Context(), "CREATE TEMPORARY TABLE x ()"); err == nil {
		t.Error("a login may make temporary objects, which come before everybody's")
	}
	for _, table := range []string{"runs", "snapshots", "claims", "transcript", "usage", "outcomes"} {
		var all, foreign int
		row := conn.QueryRow(t.Context(), "SELECT count(*), count(*) FILTER (WHERE run_uid = $1) FROM ekiden."+table, string(other.UID))
		if err := row.Scan(&all, &foreign); err != nil {
			t.Fatalf("%s: %v", table, err)
		}
		if all == 0 || foreign != 0 {
			t.Errorf("%s: %d rows seen, %d of another namespace", table, all, foreign)
		}
	}
}

// login connects with the namespace's own login.
func (s *story) login() *pgx.Conn {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), s.dsn())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// dsn is the namespace's own, from its Secret.
func (s *story) dsn() string {
	s.Helper()
	var secret corev1.Secret
	if err := api.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: contract.PostgresSecret}, &secret); err != nil {
		s.Fatal(err)
	}
	return string(secret.Data[contract.PostgresKey])
}

// superuser connects to the manager's database as whoever may see everything.
func superuser(t *testing.T) *pgx.Conn {
	t.Helper()
	d, err := shared.Describe()
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(d.Postgres.SuperuserDSN)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/ekiden"
	conn, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// TestARunOfOneSegmentCostsFewWrites counts what the manager writes, by the API server's own audit log.
func TestARunOfOneSegmentCostsFewWrites(t *testing.T) {
	t.Parallel()
	s := tell(t, answer("x")).setUp()
	s.start("warm-up") // the first run of a namespace makes its Secret too
	s.finished("warm-up")
	s.start("counted", given.Task("counted"))
	s.want(s.finished("counted"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	s.told("counted", v1alpha1.ReasonCompleted)
	writes := managerWrites(t, s.namespace, "counted")
	t.Logf("%d writes: %s", len(writes), strings.Join(writes, ", "))
	if len(writes) > 8 {
		t.Errorf("%d API writes, at most 8 are promised", len(writes))
	}
}

func TestAFurtherSegmentCostsFewWrites(t *testing.T) {
	t.Parallel()
	s := tell(t, slow(part("one ")), slow(part("two ")), answer("three")).setUp(given.Slices())
	s.start("warm-up") // the first run of a namespace makes its Secret too, and may wait for the definition
	s.finished("warm-up")
	s.start("counted", given.Task("counted"))
	s.want(s.finished("counted"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	s.told("counted", v1alpha1.ReasonCompleted)
	writes := managerWrites(t, s.namespace, "counted")
	t.Logf("%d writes: %s", len(writes), strings.Join(writes, ", "))
	segments := 0
	for _, w := range writes {
		if w == "create jobs" {
			segments++
		}
	}
	if most := 8 + 2*5; segments != 3 || len(writes) > most {
		t.Errorf("%d API writes for %d segments, at most %d are promised for three", len(writes), segments, most)
	}
}

// managerWrites are the manager's writes for one run: to the run, its Jobs and Secrets, and its Events.
func managerWrites(t *testing.T, namespace, run string) []string {
	t.Helper()
	f, err := os.Open(filepath.Join(shared.Dir, "logs", "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	var writes []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Stage, Verb string
			User        struct{ Username string }
			ObjectRef   struct{ Resource, Namespace, Name, Subresource string }
			// A write that a stale cache makes is refused with 409 and changes nothing.
			ResponseStatus struct{ Code int }
		}
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Stage != "ResponseComplete" || e.ObjectRef.Namespace != namespace {
			continue
		}
		// The log has all that the manager asks for, its reads included.
		if e.Verb == "get" || e.Verb == "list" || e.Verb == "watch" {
			continue
		}
		ours := e.User.Username == "system:serviceaccount:ekiden-system:ekiden-manager"
		if ours && (strings.HasPrefix(e.ObjectRef.Name, run) || e.ObjectRef.Resource == "events" && e.ObjectRef.Name == "") {
			write := e.Verb + " " + strings.TrimSuffix(e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")
			if e.ResponseStatus.Code >= 300 {
				t.Logf("refused with %d: %s", e.ResponseStatus.Code, write)
				continue
			}
			writes = append(writes, write)
		}
	}
	return writes
}

// TestASegmentRunsByHand starts the program as a person would: with a DSN and a run's UID.
func TestASegmentRunsByHand(t *testing.T) {
	t.Parallel()
	s := tell(t, gated("go", answer("by hand"))).setUp()
	r := s.start("manual")
	s.requests(1)
	byHand := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(shared.Repo, "bin", "segment"), args...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := byHand("--run", string(r.UID)); code != contract.ExitUsage || !strings.Contains(out, "--dsn") {
		t.Errorf("without a DSN: exit code %d: %s", code, out)
	}
	s.model.Open("go")
	s.want(s.finished("manual"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	if out, code := byHand("--run", string(r.UID), "--dsn", s.dsn()); code != contract.ExitDone || !strings.Contains(out, "nothing to do") {
		t.Errorf("on a run that has ended: exit code %d: %s", code, out)
	}
	s.wantRequests(1)
}
