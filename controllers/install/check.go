package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/approval/guard"
)

// Check says what is looked at.
type Check struct {
	// Namespace is the manager's own. Runs and requests are created there for show: as dry runs.
	Namespace string
	// Database says what is wrong with Postgres, or nothing.
	Database func(context.Context) (why string, err error)
	// Say is told what was found, a line each.
	Say func(format string, args ...any)
	// Pause lies between two looks at what is not in place yet.
	Pause time.Duration
}

// look is one thing that has to be in place: what is wrong with it, or nothing.
type look struct {
	what string
	find func(context.Context, client.Client) (why string, err error)
}

// Run looks whether all that Ekiden needs is in place, and for what is not it looks again until ctx ends: policies that were
// just applied take some seconds, and so does an election. It changes nothing. The error names all that is missing.
func (k Check) Run(ctx context.Context, c client.Client) error {
	watch, err := guard.New(c, time.Now)
	if err != nil {
		return err
	}
	looks := []look{
		{"Postgres is fit", func(ctx context.Context, _ client.Client) (string, error) { return k.Database(ctx) }},
		{"the kinds of " + v1alpha1.GroupVersion.String() + " are served", kinds},
		{"runs are stamped with who creates them", k.stamped},
		{"only approvers decide", func(ctx context.Context, _ client.Client) (string, error) {
			_, why, err := watch.Guarded(ctx, k.Namespace)
			return why, err
		}},
		{"a manager leads", k.led},
	}
	var failed []error
	for _, l := range looks {
		if err := k.until(ctx, c, l); err != nil {
			k.Say("fail  %s: %v", l.what, err)
			failed = append(failed, fmt.Errorf("%s: %w", l.what, err))
			continue
		}
		k.Say("ok    %s", l.what)
	}
	return errors.Join(failed...)
}

// patience bounds one look. It has that long even if what was looked at before has used up all the time.
const patience = 5 * time.Second

// until looks until nothing is wrong.
func (k Check) until(ctx context.Context, c client.Client, l look) error {
	for {
		once, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		why, err := l.find(once, c)
		cancel()
		if err == nil && why == "" {
			return nil
		}
		if why != "" {
			err = errors.New(why)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(k.Pause):
		}
	}
}

// kinds asks for each of our kinds. What the API server does not serve is named.
func kinds(_ context.Context, c client.Client) (string, error) {
	var missing []string
	for kind := range c.Scheme().KnownTypes(v1alpha1.GroupVersion) {
		if t, err := c.Scheme().New(v1alpha1.GroupVersion.WithKind(kind)); err != nil || !stored(t) {
			continue
		}
		_, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: kind}, v1alpha1.GroupVersion.Version)
		switch {
		case meta.IsNoMatchError(err):
			missing = append(missing, kind)
		case err != nil:
			return "", fmt.Errorf("asking for the kind %s: %w", kind, err)
		}
	}
	if len(missing) == 0 {
		return "", nil
	}
	slices.Sort(missing)
	return fmt.Sprintf("the API server does not serve %s: apply config/crd", strings.Join(missing, ", ")), nil
}

// stored reports whether objects of a type are stored: it is no list and no options of a request.
func stored(o any) bool {
	_, object := o.(metav1.Object)
	return object
}

// stamped creates a run for show and looks for whom it acts.
func (k Check) stamped(ctx context.Context, c client.Client) (string, error) {
	run := &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "ekiden-check"},
		Spec: v1alpha1.AgentRunSpec{
			DefinitionRef: v1alpha1.RunDefinitionReference{Kind: v1alpha1.AgentDefinitionKind, Name: "ekiden-check"},
			Input:         v1alpha1.RunInput{Text: "for show"},
		},
	}
	if err := c.Create(ctx, run, client.DryRunAll); err != nil {
		return "", fmt.Errorf("creating a run for show: %w", err)
	}
	if run.Spec.Principal.User == "" {
		return "a run for show has no principal: apply config/admission", nil
	}
	return "", nil
}

// led says whether somebody works.
func (k Check) led(ctx context.Context, c client.Client) (string, error) {
	leader, err := holder(ctx, c, k.Namespace, time.Now())
	if err != nil || leader != "" {
		return "", err
	}
	return fmt.Sprintf("nobody holds the lease %s/%s: look at the manager's pods and their log", k.Namespace, Lease), nil
}
