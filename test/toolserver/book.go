package toolserver

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"
)

// OnceInBook is the tool of the book that is carried out once per Idempotency-Key. Any other name is a tool that is carried out
// whenever it is asked for.
const OnceInBook = "once"

// Line is one line of the book.
type Line struct {
	At time.Time `json:"at"`
	// What is Began, Ended or Again.
	What string `json:"what"`
	Tool string `json:"tool"`
	Key  string `json:"key"`
}

// What a line tells: that a call is carried out, that it has been, and that a call came which had been before.
const (
	Began = "began"
	Ended = "ended"
	Again = "again"
)

// Book is a ledger of calls that outlives the server: a file to which a line is added before a call is carried out and another
// after it. It serves
//
//	GET, POST /book/{tool}   takes the milliseconds that ms says, as a parameter or in the body
//
// A call is carried out to its end even if its client leaves: the world does not take back what somebody no longer waits for.
type Book struct {
	mu   sync.Mutex
	file *os.File
	once map[string]chan struct{} // by key, closed when it has been carried out
}

// OpenBook continues the book in a file.
func OpenBook(name string) (*Book, error) {
	lines, err := ReadBook(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b := &Book{once: map[string]chan struct{}{}}
	for _, l := range lines {
		if l.What == Ended && l.Tool == OnceInBook {
			b.once[l.Key] = make(chan struct{})
			close(b.once[l.Key])
		}
	}
	b.file, err = os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return b, err
}

// ReadBook reads a book, whose last line may be half written.
func ReadBook(name string) ([]Line, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	var lines []Line
	for r := bufio.NewReader(f); ; {
		b, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		var l Line
		if err := json.Unmarshal(b, &l); err != nil {
			return nil, fmt.Errorf("line %d of %s: %w", len(lines)+1, name, err)
		}
		lines = append(lines, l)
	}
}

func (b *Book) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var said struct{ Ms string }
	if body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody)); err != nil || len(body) > 0 && json.Unmarshal(body, &said) != nil {
		http.Error(w, "the body is no JSON object", http.StatusBadRequest)
		return
	}
	if q := r.URL.Query().Get("ms"); q != "" {
		said.Ms = q
	}
	takes, err := time.ParseDuration(said.Ms + "ms")
	if err != nil {
		http.Error(w, "ms is no number", http.StatusBadRequest)
		return
	}
	if err := b.carryOut(r.PathValue("tool"), r.Header.Get("Idempotency-Key"), takes); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"done": r.PathValue("tool")})
}

// carryOut writes before and after. Of a tool that is carried out once, who comes again waits for the first.
func (b *Book) carryOut(tool, key string, takes time.Duration) error {
	first, done, err := b.begin(tool, key)
	if err != nil {
		return err
	}
	if !first {
		<-done
		return nil
	}
	time.Sleep(takes) //nolint:forbidigo // It is the work.
	b.mu.Lock()
	defer b.mu.Unlock()
	if done != nil {
		close(done)
	}
	return b.write(Ended, tool, key)
}

func (b *Book) begin(tool, key string) (first bool, done chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if tool == OnceInBook {
		if before, again := b.once[key]; again {
			return false, before, b.write(Again, tool, key)
		}
		done = make(chan struct{})
		b.once[key] = done
	}
	return true, done, b.write(Began, tool, key)
}

// write adds a line in one piece: what the kernel has taken outlives this process.
func (b *Book) write(what, tool, key string) error {
	line, err := json.Marshal(Line{At: time.Now(), What: what, Tool: tool, Key: key})
	if err != nil {
		return err
	}
	_, err = b.file.Write(append(line, '\n'))
	return err
}
