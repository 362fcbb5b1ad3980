package sweep

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/metrics"
)

// Keep says for how long what is kept. Zero means for ever.
type Keep struct {
	// Sessions and Runs count from the end of a whole tree of runs, Policies from the next version on.
	Sessions, Runs, Policies Window
}

// Check reports windows that make no sense together.
func (k Keep) Check() error {
	if k.Runs != 0 && (k.Sessions == 0 || k.Sessions > k.Runs) {
		return fmt.Errorf("--keep-sessions is %s and --keep-runs %s: a session goes with its run at the latest", k.Sessions, k.Runs)
	}
	return nil
}

// Window is a time for which something is kept. On the command line it is a number of days such as 30d, a duration of Go such as 720h,
// or 0.
type Window time.Duration

// shortest is the shortest window: what has just ended is still looked at.
const shortest = Window(time.Hour)

var days = regexp.MustCompile(`^([0-9]{1,5})d$`)

// Set reads a window.
func (w *Window) Set(s string) error {
	d, err := time.ParseDuration(s)
	if m := days.FindStringSubmatch(s); m != nil {
		n, _ := strconv.Atoi(m[1]) // five digits
		d, err = time.Duration(n)*24*time.Hour, nil
	}
	switch {
	case err != nil:
		return errors.New("want days such as 30d, a duration such as 720h, or 0 for ever")
	case d != 0 && Window(d) < shortest:
		return fmt.Errorf("want at least %s, or 0 for ever", shortest)
	}
	*w = Window(d)
	return nil
}

// String is the window as it is written.
func (w Window) String() string {
	if d := time.Duration(w); d%(24*time.Hour) == 0 && d != 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	if w == 0 {
		return "0"
	}
	return time.Duration(w).String()
}

// Type names the kind of flag.
func (w *Window) Type() string { return "window" }

const (
	// dropEvery is the pause between two looks for what is old, and dropFor how long one lasts at most: meanwhile nothing else is swept.
	dropEvery = 10 * time.Minute
	dropFor   = 30 * time.Second
	// page is how many trees are looked at and deleted together, mostRows how many rows of a table go in one transaction.
	page     = 100
	mostRows = 500
)

// Drop deletes what is older than its window, in small transactions, oldest first. What has an object is kept, and its whole tree:
// people read it through the object. It may be interrupted anywhere; the next one finds what is left.
func (s *Sweeper) Drop(ctx context.Context) error {
	d := dropping{Sweeper: s, dropped: ledger.Dropped{}, rows: max(1, s.rows)}
	err := errors.Join(
		d.trees(ctx, ledger.Sessions, s.Keep.Sessions),
		d.trees(ctx, ledger.Runs, s.Keep.Runs),
		d.policies(ctx, s.Keep.Policies),
	)
	s.rows = mostRows
	if err != nil { // it may have been too much at once
		s.rows = max(1, d.rows/4)
	}
	if d.dropped.Total() > 0 {
		logf.FromContext(ctx).Info("deleted rows that are older than they are kept", "rows", d.dropped)
	}
	return err
}

// dropping is one look for what is old.
type dropping struct {
	*Sweeper
	dropped ledger.Dropped
	rows    int
	// exists are the runs that have an object, once that was asked for.
	exists map[types.UID]bool
}

func (d *dropping) trees(ctx context.Context, what ledger.Kept, keep Window) error {
	var last ledger.Tree
	for keep != 0 {
		trees, err := d.Ledger.Old(ctx, what, time.Duration(keep), last, page)
		if err != nil || len(trees) == 0 {
			return err
		}
		last = trees[len(trees)-1]
		roots, err := d.gone(ctx, trees)
		if err != nil {
			return err
		}
		for len(roots) > 0 {
			n, err := d.Ledger.Drop(ctx, what, time.Duration(keep), roots, d.rows)
			if err != nil {
				return err
			}
			if n.Total() == 0 {
				break
			}
			d.count(n)
		}
	}
	return nil
}

func (d *dropping) policies(ctx context.Context, keep Window) error {
	for keep != 0 {
		n, err := d.Ledger.DropPolicies(ctx, time.Duration(keep), d.rows)
		if err != nil || n.Total() == 0 {
			return err
		}
		d.count(n)
	}
	return nil
}

// gone are the roots of the trees of which no run has an object.
func (d *dropping) gone(ctx context.Context, trees []ledger.Tree) (roots []types.UID, err error) {
	if d.exists == nil {
		if d.exists, err = d.objects(ctx); err != nil {
			return nil, err
		}
	}
	for _, t := range trees {
		there := false
		for _, run := range t.Runs {
			there = there || d.exists[run]
		}
		if !there {
			roots = append(roots, t.Root)
		}
	}
	return roots, nil
}

func (d *dropping) count(n ledger.Dropped) {
	d.dropped.Add(n)
	for table, rows := range n {
		metrics.RowsDeleted(table, rows)
	}
}

// objects are the runs that have an object, by their UIDs.
func (s *Sweeper) objects(ctx context.Context) (map[types.UID]bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AgentRunList"))
	if err := s.Live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	exists := make(map[types.UID]bool, len(list.Items))
	for _, o := range list.Items {
		exists[o.UID] = true
	}
	return exists, nil
}
