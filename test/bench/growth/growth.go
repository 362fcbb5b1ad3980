// Package growth is bench B4: what each turn of a long conversation writes, beside what a checkpoint of the whole state writes.
package growth

import (
	"context"
	"fmt"

	"github.com/ekiden-dev/ekiden/test/bench/machine"
)

// Keeper keeps a conversation, turn by turn, each durable before the next begins.
type Keeper interface {
	// Name is who keeps it and how.
	Name() string
	// Keep keeps all turns. It tells turned after each, when that is durable, with how many bytes were said in it.
	Keep(ctx context.Context, turned func(ctx context.Context, turn, said int) error) error
	// Stored is how many bytes the tables of the conversation take.
	Stored(ctx context.Context) (int64, error)
}

// Options shape the bench.
type Options struct {
	Turns int `json:"turns"`
	// Tokens is how many tokens all turns say together, of BytesPerToken each.
	Tokens int `json:"tokens"`
}

// BytesPerToken is what is commonly reckoned.
const BytesPerToken = 4

// Words are how many bytes the model and the tool say each in a turn.
func (o Options) Words() int { return o.Tokens * BytesPerToken / o.Turns / 2 }

// Mark is what was written by a turn.
type Mark struct {
	Turn int `json:"turn"`
	// Said is how many bytes were said so far, Written how many went into the server's log, Stored how many the tables take.
	Said    int64 `json:"said"`
	Written int64 `json:"walBytes"`
	Stored  int64 `json:"tableBytes"`
}

// Result is the growth with one keeper.
type Result struct {
	Keeper string `json:"keeper"`
	Load   string `json:"loadAverage"`
	// Marks are ten of the conversation, or as many as it has turns.
	Marks []Mark `json:"marks"`
	// Last is how many turns were kept.
	Last int `json:"lastTurn"`
}

// Run has a conversation kept and looks at the server in between.
func Run(ctx context.Context, k Keeper, p *machine.Postgres, o Options) (Result, error) {
	r := Result{Keeper: k.Name(), Load: machine.Load()}
	began, err := p.Written(ctx)
	if err != nil {
		return r, err
	}
	empty, err := k.Stored(ctx)
	if err != nil {
		return r, err
	}
	every, said := max(o.Turns/10, 1), int64(0)
	err = k.Keep(ctx, func(ctx context.Context, turn, bytes int) error {
		r.Last, said = turn, said+int64(bytes)
		if turn%every != 0 {
			return nil
		}
		written, err := p.Written(ctx)
		if err != nil {
			return err
		}
		stored, err := k.Stored(ctx)
		r.Marks = append(r.Marks, Mark{Turn: turn, Said: said, Written: written - began, Stored: stored - empty})
		return err
	})
	if err != nil {
		return r, fmt.Errorf("%s: %w", k.Name(), err)
	}
	return r, nil
}

// Head are the columns of the table.
var Head = []string{
	"turns", "said/turn", "ekiden WAL/turn", "per byte said", "ekiden tables", "checkpoints WAL/turn", "per byte said", "checkpoints to ekiden",
}

// Rows are the marks of both side by side, each beside the one before it.
func Rows(ours, checkpoints Result) [][]string {
	var rows [][]string
	var was, their Mark
	for i, m := range ours.Marks {
		if i >= len(checkpoints.Marks) {
			break
		}
		c := checkpoints.Marks[i]
		n := int64(m.Turn - was.Turn)
		said, wrote, theirs := float64(m.Said-was.Said), float64(m.Written-was.Written), float64(c.Written-their.Written)
		rows = append(rows, []string{
			fmt.Sprintf("%d-%d", was.Turn+1, m.Turn), fmt.Sprintf("%.0f", said/float64(n)),
			fmt.Sprintf("%.0f", wrote/float64(n)), fmt.Sprintf("%.2f", wrote/said), fmt.Sprintf("%.2f MB", float64(m.Stored)/1e6),
			fmt.Sprintf("%.0f", theirs/float64(n)), fmt.Sprintf("%.1f", theirs/said), fmt.Sprintf("%.1f", theirs/wrote),
		})
		was, their = m, c
	}
	return rows
}
