package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

func (w *world) contracts(t *testing.T) *postgres.Contracts {
	t.Helper()
	c, err := postgres.OpenContracts(t.Context(), w.proxy.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// kept are the bodies that are kept, by generation and name. Each is held against its digest.
func (w *world) kept(t *testing.T, server types.UID) map[string]string {
	t.Helper()
	rows, err := pgtest.Connect(t, w.tenant).Query(t.Context(), `SELECT generation, name, digest, body FROM ekiden.contracts WHERE server_uid = $1`, server)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var (
		generation         int64
		name, digest, body string
	)
	if _, err := pgx.ForEachRow(rows, []any{&generation, &name, &digest, &body}, func() error {
		out[fmt.Sprint(generation, " ", name)] = body
		if digest != contract.Digest([]byte(body)) {
			t.Errorf("%s has digest %s", body, digest)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func tools(names ...string) []contract.ToolContract {
	var out []contract.ToolContract
	for _, name := range names {
		out = append(out, contract.ToolContract{Name: name, Description: "<does> it", Schema: json.RawMessage(`{ "type": "object" }`)})
	}
	return out
}

func TestContractsAreKeptWholeAndOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, server := w.contracts(t), types.UID(uuid.NewString())
	keep := func(generation int64, tools []contract.ToolContract) {
		t.Helper()
		before := w.proxy.Transactions()
		if err := c.Keep(t.Context(), w.namespace, server, generation, tools); err != nil {
			t.Fatal(err)
		}
		if n := w.proxy.Transactions() - before; n != 1 {
			t.Errorf("it took %d transactions", n)
		}
	}
	keep(1, tools("a", "b"))
	keep(1, tools("b", "c")) // the server has changed its mind between two tries: the first answer counts, whole
	keep(2, tools("c", "\x00d"))
	body := func(name string) string {
		b, _, err := tools(name)[0].Encode()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := map[string]string{"1 a": body("a"), "1 b": body("b"), "2 c": body("c"), "2 \uFFFDd": body("\uFFFDd")}
	if diff := cmp.Diff(want, w.kept(t, server)); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

func TestContractsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, server := w.contracts(t), types.UID(uuid.NewString())
	broken := tools("a", "b")
	broken[1].Schema = json.RawMessage(`{"x":1,"x":2}`)
	for name, given := range map[string][]contract.ToolContract{
		"one has no usable schema": broken, "two have one name": tools("a", "b", "a"), "there are none": nil,
	} {
		if err := c.Keep(t.Context(), w.namespace, server, 1, given); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := c.Keep(t.Context(), types.UID(uuid.NewString()), server, 1, tools("a")); err == nil {
		t.Error("contracts were kept in another namespace")
	}
	if got := w.kept(t, server); len(got) != 0 {
		t.Errorf("kept: %v", got)
	}
	w.proxy.Lose(0)
	if err := c.Keep(t.Context(), w.namespace, server, 1, tools("a")); !errors.Is(err, segment.ErrUnavailable) {
		t.Errorf("got error %v, want ErrUnavailable", err)
	}
	if err := c.Keep(t.Context(), w.namespace, server, 1, tools("a")); err != nil {
		t.Errorf("repeating it: %v", err)
	}
}

func TestContractsKeptAtOnceAreThoseOfOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := types.UID(uuid.NewString())
	var wg sync.WaitGroup
	for i := range 6 {
		c := w.contracts(t)
		wg.Go(func() {
			if err := c.Keep(t.Context(), w.namespace, server, 1, tools(fmt.Sprint("only ", i), "shared")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := w.kept(t, server); len(got) != 2 {
		t.Errorf("kept: %v", got)
	}
}

func TestAServerOfAnotherNamespaceIsNotInTheWay(t *testing.T) {
	t.Parallel()
	w, v := newWorld(t), newWorld(t)
	server := types.UID(uuid.NewString())
	for _, one := range []*world{v, w} {
		if err := one.contracts(t).Keep(t.Context(), one.namespace, server, 1, tools("a")); err != nil {
			t.Error(err)
		}
		if got := one.kept(t, server); len(got) != 1 {
			t.Errorf("kept: %v", got)
		}
	}
}
