package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

func TestTheCommandLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		given    []string
		code     int
		out, err string
	}{
		"alone it tells what it can do":      {nil, exitOK, "transcript", ""},
		"help names the exit codes":          {[]string{"result", "--help"}, exitOK, "5    the run was cancelled", ""},
		"help speaks of kubectl ekiden":      {[]string{"cancel", "--help"}, exitOK, "kubectl ekiden cancel RUN...", ""},
		"an unknown command is a mistake":    {[]string{"frobnicate"}, exitUsage, "", `unknown command "frobnicate"`},
		"so is an unknown flag":              {[]string{"result", "--nope"}, exitUsage, "", "See 'kubectl ekiden result --help'"},
		"so is a missing run":                {[]string{"result"}, exitUsage, "", "accepts 1 arg(s)"},
		"so is an output nobody knows":       {[]string{"transcript", "r", "-o", "yaml"}, exitUsage, "", "neither text nor json"},
		"so is a UID that is none":           {[]string{"transcript", "--uid", "x"}, exitUsage, "", "is no UID"},
		"so are a run and a UID":             {[]string{"transcript", "r", "--uid", "x"}, exitUsage, "", "unknown command"},
		"so are a namespace and all of them": {[]string{"doctor", "-A", "-n", "x"}, exitUsage, "", "exclude each other"},
		"without a cluster it says so":       {[]string{"result", "r"}, exitError, "", "error: no cluster is configured"},
		"the version is told":                {[]string{"--version"}, exitOK, "dev", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t.Context(), nil, nil, tc.given...)
			if got.code != tc.code || !strings.Contains(got.out, tc.out) || !strings.Contains(got.err, tc.err) {
				t.Errorf("got %+v, want %+v", got, tc)
			}
		})
	}
}

// TestRemediesAreThoseOfTheReference keeps what a failed run is told and what the documentation says in step.
func TestRemediesAreThoseOfTheReference(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]* \\| ([^|]+) \\|$")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		want[m[1]] = m[2]
	}
	// Reasons of definitions: no run fails with them.
	delete(want, v1alpha1.ReasonModelEndpointNotFound)
	delete(want, v1alpha1.ReasonInvalid)
	if diff := cmp.Diff(want, remedies); diff != "" {
		t.Errorf("remedies (-reference +ours):\n%s", diff)
	}
}

func TestTranscriptSaysWhereSessionsAre(t *testing.T) {
	t.Parallel()
	const unreachable = "postgres://u:hush@127.0.0.1:1/ekiden"
	queued := aRun("queued", func(r *v1alpha1.AgentRun) { r.Status.SnapshotDigest = "" })
	for name, tc := range map[string]struct {
		dsn         string
		environment map[string]string
		given       []string
		code        int
		want        string
	}{
		"the run does not exist":             {unreachable, nil, []string{"nobody"}, exitError, `there is no run "nobody" in namespace team`},
		"there is no Secret":                 {"", nil, []string{"r"}, exitError, "does not exist: the manager makes it"},
		"the Secret holds no DSN":            {"hush", nil, []string{"r"}, exitError, "the DSN cannot be read"},
		"Postgres is elsewhere":              {unreachable, nil, []string{"r"}, exitError, "It is at 127.0.0.1:1."},
		"Postgres is a Service":              {"postgres://u:hush@pg.invalid/ekiden?connect_timeout=2", nil, []string{"r"}, exitError, "kubectl port-forward --namespace invalid service/pg 15432:5432"},
		"the forwarding has ended":           {"postgres://u:hush@pg.db/ekiden", nil, []string{"r", "--postgres-address", "127.0.0.1:1"}, exitError, "does kubectl port-forward still run there?"},
		"a DSN of one's own":                 {"", nil, []string{"r", "--dsn", unreachable}, exitError, "no connection to Postgres from here"},
		"a DSN in the environment":           {"", map[string]string{"EKIDEN_DSN": unreachable}, []string{"r"}, exitError, "no connection to Postgres from here"},
		"an address goes with the Secret":    {unreachable, map[string]string{"EKIDEN_DSN": unreachable}, []string{"r", "--postgres-address", "x:1"}, exitUsage, "leave out one of them"},
		"a DSN that is none is not repeated": {"", nil, []string{"r", "--dsn", "postgres://u:hush@h:port/x"}, exitError, "the DSN cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fakeCluster(t, interceptor.Funcs{}, aRun("r"), queued.DeepCopy())
			if tc.dsn != "" {
				if err := c.Create(t.Context(), aSecret(tc.dsn)); err != nil {
					t.Fatal(err)
				}
			}
			got := run(t.Context(), c, tc.environment, append([]string{"transcript"}, tc.given...)...)
			if got.code != tc.code || got.out != "" || !strings.Contains(got.err, tc.want) {
				t.Errorf("got %+v, want code %d and %q", got, tc.code, tc.want)
			}
			if strings.Contains(got.err, "hush") {
				t.Errorf("the password is told: %s", got.err)
			}
		})
	}
}
