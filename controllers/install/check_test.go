package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestCheckSaysWhatIsMissing: that all is in place when it is, the stories of an installation show.
func TestCheckSaysWhatIsMissing(t *testing.T) {
	cases := map[string]struct {
		objects  []client.Object
		database func(context.Context) (string, error)
		says     []string
	}{
		"a database that lacks something": {
			database: func(context.Context) (string, error) { return "the login may not make roles", nil },
			says:     []string{"fail  Postgres is fit: the login may not make roles"},
		},
		"a database that does not answer": {
			database: func(context.Context) (string, error) { return "", errors.New("connection refused") },
			says:     []string{"fail  Postgres is fit: connection refused"},
		},
		"no policies of admission": {
			says: []string{
				"ok    Postgres is fit",
				"ok    the kinds of ekiden.dev/v1alpha1 are served",
				"fail  runs are stamped with who creates them: a run for show has no principal: apply config/admission",
				"fail  only approvers decide: ValidatingAdmissionPolicy ekiden-approval-decision is missing: apply config/admission",
			},
		},
		"no manager":               {says: []string{"fail  a manager leads: nobody holds the lease ekiden-system/ekiden-manager: look at the manager's pods and their log"}},
		"a manager that went away": {objects: objects(lease("manager-1", time.Now().Add(-time.Hour))), says: []string{"fail  a manager leads: nobody holds the lease ekiden-system/ekiden-manager: look at the manager's pods and their log"}},
		"a manager that leads":     {objects: objects(lease("manager-1", time.Now().Add(time.Hour))), says: []string{"ok    a manager leads"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.database == nil {
				tc.database = func(context.Context) (string, error) { return "", nil }
			}
			var said []string
			k := Check{
				Namespace: home, Database: tc.database, Pause: time.Millisecond,
				Say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) },
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := k.Run(ctx, world(t, nil, tc.objects...)); err == nil {
				t.Error("all is said to be in place")
			}
			for _, want := range tc.says {
				if !slices.Contains(said, want) {
					t.Errorf("%q is not said, but:\n%s", want, strings.Join(said, "\n"))
				}
			}
		})
	}
}

// TestCheckWaitsForWhatComes: what is not so yet is looked at again.
func TestCheckWaitsForWhatComes(t *testing.T) {
	looks := 0
	l := look{what: "it is there", find: func(context.Context, client.Client) (string, error) {
		if looks++; looks < 3 {
			return "not yet", nil
		}
		return "", nil
	}}
	if err := (Check{Pause: time.Millisecond}).until(t.Context(), nil, l); err != nil || looks != 3 {
		t.Errorf("%d looks, %v", looks, err)
	}
}

func TestKindsThatAreNotServedAreNamed(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithRESTMapper(meta.NewDefaultRESTMapper(nil)).Build()
	why, err := kinds(t.Context(), c)
	want := "the API server does not serve AgentDefinition, AgentPolicy, AgentRun, ApprovalRequest, DefinitionRevision, ModelEndpoint, ToolServer: apply config/crd"
	if why != want || err != nil {
		t.Errorf("%q (%v), want %q", why, err, want)
	}
}
