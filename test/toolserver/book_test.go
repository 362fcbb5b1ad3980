package toolserver

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestABookOutlivesItsServer carries out calls, opens the book again, and carries out some more.
func TestABookOutlivesItsServer(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "book")
	call := func(s http.Handler, method, target, body, key string) int {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	open := func() http.Handler {
		t.Helper()
		b, err := OpenBook(name)
		if err != nil {
			t.Fatal(err)
		}
		return New(Options{Book: b})
	}
	s := open()
	codes := []int{
		call(s, "GET", "/book/look?ms=1", "", "a"),
		call(s, "POST", "/book/once", `{"ms":"1"}`, "b"), call(s, "POST", "/book/once", `{"ms":"1"}`, "b"),
		call(s, "POST", "/book/send", `{"ms":"soon"}`, "c"),
	}
	s = open()
	codes = append(codes, call(s, "POST", "/book/once", `{"ms":"1"}`, "b"), call(s, "POST", "/book/send", `{"ms":"1"}`, "c"), call(s, "POST", "/book/send", `{"ms":"1"}`, "c"))
	if diff := cmp.Diff([]int{200, 200, 200, 400, 200, 200, 200}, codes); diff != "" {
		t.Error(diff)
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"what":"beg`); err != nil {
		t.Fatal(err)
	}
	lines, err := ReadBook(name)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, l := range lines {
		told = append(told, l.Key+" "+l.What)
	}
	want := []string{"a began", "a ended", "b began", "b ended", "b again", "b again", "c began", "c ended", "c began", "c ended"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}
