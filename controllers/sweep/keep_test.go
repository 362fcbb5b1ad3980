package sweep

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/test/given"
)

func TestWindows(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"30d": "30d", "720h": "30d", "36h": "36h0m0s", "1h": "1h0m0s", "0": "0", "0d": "0",
		"30": "want days such as 30d", "a month": "want days such as 30d", "-1h": "want at least 1h0m0s", "30m": "want at least 1h0m0s", "999999d": "want days such as 30d",
	} {
		t.Run(given, func(t *testing.T) {
			t.Parallel()
			var w Window
			got := ""
			if err := w.Set(given); err != nil {
				got = err.Error()
			} else {
				got = w.String()
			}
			if !strings.HasPrefix(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestASessionGoesWithItsRunAtTheLatest(t *testing.T) {
	t.Parallel()
	const d = Window(24 * time.Hour)
	for name, tc := range map[string]struct {
		given Keep
		want  string
	}{
		"as long as the run":        {Keep{Sessions: d, Runs: d}, ""},
		"less":                      {Keep{Sessions: d, Runs: 2 * d}, ""},
		"runs are kept for ever":    {Keep{Sessions: d}, ""},
		"everything is":             {Keep{}, ""},
		"longer":                    {Keep{Sessions: 2 * d, Runs: d}, "--keep-sessions is 2d and --keep-runs 1d"},
		"for ever, and the run not": {Keep{Runs: d}, "--keep-sessions is 0 and --keep-runs 1d"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.given.Check()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestDrop(t *testing.T) {
	t.Parallel()
	const d = Window(24 * time.Hour)
	object := func(uid types.UID) client.Object {
		r := given.Run("run", "team")
		r.UID = uid
		return r
	}
	for name, tc := range map[string]struct {
		given []client.Object
		keep  Keep
		ago   time.Duration
		live  bool
		// session and run say what is left.
		session, run bool
	}{
		"what is old goes":                            {keep: Keep{Sessions: d, Runs: 3 * d}, ago: 100 * time.Hour},
		"a session goes before its run":               {keep: Keep{Sessions: d, Runs: 30 * d}, ago: 100 * time.Hour, run: true},
		"what is kept for ever stays":                 {ago: 9999 * time.Hour, session: true, run: true},
		"what is young stays":                         {keep: Keep{Sessions: 5 * d, Runs: 9 * d}, ago: 100 * time.Hour, session: true, run: true},
		"what goes on stays":                          {keep: Keep{Sessions: d, Runs: d}, live: true, session: true, run: true},
		"what has an object stays":                    {given: []client.Object{object("uid")}, keep: Keep{Sessions: d, Runs: 3 * d}, ago: 100 * time.Hour, session: true, run: true},
		"an object of the name is another's":          {given: []client.Object{object("new")}, keep: Keep{Sessions: d, Runs: 3 * d}, ago: 100 * time.Hour},
		"a child's object keeps the tree that is old": {given: []client.Object{object("child")}, keep: Keep{Sessions: d, Runs: 3 * d}, ago: 100 * time.Hour, session: true, run: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.given...)
			w.Keep = tc.keep
			w.admitUnder("child", "uid")
			w.ledger.Append("uid", 3)
			if !tc.live {
				for _, uid := range []types.UID{"uid", "child"} {
					if _, err := w.ledger.Finish(t.Context(), uid, ledger.End{Phase: v1alpha1.RunSucceeded}); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.now = noon.Add(tc.ago)
			for range 2 {
				if err := w.Drop(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			rec, err := w.ledger.Look(t.Context(), "uid")
			if err != nil || (rec != nil) != tc.run || rec != nil && (rec.Entries == 3) != tc.session {
				t.Errorf("left %+v, %v", rec, err)
			}
		})
	}
}
