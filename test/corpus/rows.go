package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"
)

// Rows are the rows of one run, by their tables, as JSON objects.
type Rows map[string][]map[string]any

// tables are those that have rows of a run, in the order in which foreign keys allow to fill them, and what names the run in them.
var tables = []struct{ name, key, order string }{
	{"runs", "run_uid", "run_uid"},
	{"snapshots", "run_uid", "run_uid"},
	{"attempts", "run_uid", "segment, attempt"},
	{"claims", "run_uid", "lane"},
	{"transcript", "run_uid", "seq"},
	{"usage", "run_uid", "turn, try, generation"},
	{"outcomes", "run_uid", "segment"},
	{"calls", "run_uid", "turn, idx"},
	{"inbox", "run_uid", "seq"},
	{"policies", "namespace_uid", "version"},
}

// dump reads the rows of a run.
func dump(ctx context.Context, conn *pgx.Conn, namespace, run types.UID) (Rows, error) {
	out := Rows{}
	for _, t := range tables {
		uid := run
		if t.key == "namespace_uid" {
			uid = namespace
		}
		rows, err := conn.Query(ctx, fmt.Sprintf(`SELECT to_jsonb(t)::text FROM ekiden.%s t WHERE %s = $1::uuid ORDER BY %s`, t.name, t.key, t.order), string(uid))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", t.name, err)
		}
		bodies, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", t.name, err)
		}
		for i, body := range bodies {
			row, err := decode(body)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", t.name, err)
			}
			out[t.name] = append(out[t.name], still(row, i))
		}
	}
	return out, nil
}

func decode(body string) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(body)))
	d.UseNumber() // a digit that is lost would be another number
	row := map[string]any{}
	return row, d.Decode(&row)
}

// instants are the columns that hold the time of the recording; put fills in its own.
var instants = []string{"admitted_at", "ended_at", "begun_at", "not_before", "lease_until", "beat", "cancelled_at", "final_at", "at", "settled_at", "since"}

// now stands in the place of an instant that is set.
const now = "now"

var notBefore = regexp.MustCompile(`"notBefore":"[^"]*"`)

// still replaces what differs between two recordings of the same story.
func still(row map[string]any, place int) map[string]any {
	for _, column := range instants {
		if row[column] != nil {
			row[column] = now
		}
	}
	if body, ok := row["body"].(string); ok {
		row["body"] = notBefore.ReplaceAllString(body, `"notBefore":"2026-01-01T00:00:00Z"`)
	}
	if row["holder"] != nil {
		row["holder"] = "somebody"
	}
	if row["active_ms"] != nil {
		row["active_ms"] = json.Number("0")
	}
	if _, numbered := row["request_uid"]; numbered {
		row["seq"] = json.Number(fmt.Sprint(place + 1))
	}
	return row
}

// put writes the rows as the release that recorded them would have: columns that it did not know get their defaults.
func put(ctx context.Context, conn *pgx.Conn, rows Rows) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // it is over once committed
	for _, t := range tables {
		for _, row := range rows[t.name] {
			if err := insert(ctx, tx, t.name, row); err != nil {
				return fmt.Errorf("filling %s: %w", t.name, err)
			}
		}
	}
	return tx.Commit(ctx)
}

func insert(ctx context.Context, tx pgx.Tx, table string, row map[string]any) error {
	filled := maps.Clone(row)
	if table == "inbox" {
		delete(filled, "seq") // numbers are the table's to give; they rise in the order of the file
	}
	var columns, values []string
	for _, c := range slices.Sorted(maps.Keys(filled)) {
		columns = append(columns, c)
		if filled[c] == now {
			values = append(values, "now()")
			delete(filled, c)
			continue
		}
		values = append(values, "r."+c)
	}
	body, err := json.Marshal(filled)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, fmt.Sprintf(`INSERT INTO ekiden.%[1]s (%[2]s) SELECT %[3]s FROM jsonb_populate_record(NULL::ekiden.%[1]s, $1::jsonb) r`,
		table, strings.Join(columns, ", "), strings.Join(values, ", ")), string(body))
	return err
}
