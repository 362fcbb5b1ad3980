// Package toolserver is a tool server for tests and demonstrations. It serves the same tools at once over MCP, at /mcp,
// and as a plain HTTP API, at /api, counts what it is asked and what it does, and misbehaves on request.
//
//	get_customer   reads    GET  /api/customers/{id}
//	refund         sends    POST /api/customers/{id}/refunds   once per Idempotency-Key
//	find_refund    reads    GET  /api/refunds/{key}            if Options.Find
//
// With a Book it serves tools of any name at /book, and writes each call down in a file that outlives it.
//
// What it counts is what tests believe: a call that was carried out although its client never heard of it is counted.
package toolserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Options shape a server. The zero Options are a server of the MCP protocol with sessions that wants no key.
type Options struct {
	// RequireKey is the key that each request must carry as "Authorization: Bearer KEY". Empty takes any.
	RequireKey string
	// Stateless serves the stateless form of MCP, without sessions. JSON answers in one document instead of a stream.
	Stateless, JSON bool
	// IgnoreKeys makes each refund an effect, whatever its Idempotency-Key.
	IgnoreKeys bool
	// Find offers the tool find_refund, which tells by its Idempotency-Key whether a refund was paid.
	Find bool
	// PageSize is how many tools a page of the list holds. Zero means all.
	PageSize int
	// Book keeps calls to /book. Nil has no book.
	Book *Book
	// Log may be nil.
	Log *slog.Logger
}

// Server serves tools. It is an http.Handler.
type Server struct {
	// URL is the address of a server that Start started, such as http://127.0.0.1:4321. MCP is below it at /mcp, the API at /api.
	URL string

	options  Options
	log      *slog.Logger
	mux      *http.ServeMux
	protocol http.Handler
	// done is closed when the server stops, so that calls that hang end.
	done     chan struct{}
	stopOnce sync.Once
	quit, up func()
	acted    func(tool string)

	mu        sync.Mutex
	counts    Counts
	requests  []Request
	moods     map[string]Mood
	said      map[string]string // description by tool, where it was changed
	withdrawn map[string]bool
	extra     int
	pages     func(cursor string) (tools []any, next string)
	sessions  map[string]bool
	forgotten map[string]Amnesia
	paid      map[string]string // result of a refund by Idempotency-Key
}

// Counts are what the server has seen and done since it started or was reset.
type Counts struct {
	// Requests counts the requests that asked for a tool, by tool, those that were turned away included.
	Requests map[string]int `json:"requests"`
	// Calls counts the calls that were carried out, by tool.
	Calls map[string]int `json:"calls"`
	// Effects counts refunds that were paid. It is smaller than the calls where a key came again.
	Effects int `json:"effects"`
	// Keys counts the calls that were carried out, by Idempotency-Key.
	Keys map[string]int `json:"keys"`
	// Unauthorized counts requests without the key, Streams those for a stream of events by GET.
	Unauthorized int `json:"unauthorized"`
	Streams      int `json:"streams"`
	// Sessions counts the sessions that were opened.
	Sessions int `json:"sessions"`
}

// Request is one request as it came.
type Request struct {
	HTTPMethod, URI string
	// Method and Tool are those of the protocol, for MCP.
	Method, Tool string
	Header       http.Header
	Body         []byte
}

// New is a server.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{options: o, log: o.Log, mux: http.NewServeMux(), done: make(chan struct{}), sessions: map[string]bool{}, forgotten: map[string]Amnesia{}}
	s.Reset()
	s.protocol = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.offer() }, &mcp.StreamableHTTPOptions{Stateless: o.Stateless, JSONResponse: o.JSON})
	s.mux.HandleFunc("/mcp", s.door)
	s.api()
	if o.Book != nil {
		s.mux.Handle("/book/{tool}", o.Book)
	}
	s.control()
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Stop ends all calls that hang.
func (s *Server) Stop() { s.stopOnce.Do(func() { close(s.done) }) }

// Reset forgets what was counted and every mood and change. Sessions stay.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts = Counts{Requests: map[string]int{}, Calls: map[string]int{}, Keys: map[string]int{}}
	s.requests, s.extra, s.pages = nil, 0, nil
	s.moods, s.said, s.withdrawn, s.paid = map[string]Mood{}, map[string]string{}, map[string]bool{}, map[string]string{}
}

// Counts are what the server has seen and done.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Requests, c.Calls, c.Keys = maps.Clone(c.Requests), maps.Clone(c.Calls), maps.Clone(c.Keys)
	return c
}

// Requests are the requests as they came, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request{}, s.requests...)
}

// Describe changes what the server says about a tool, for sessions that begin from now on.
func (s *Server) Describe(tool, description string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said[tool] = description
}

// Withdraw takes a tool out of the list, for sessions that begin from now on.
func (s *Server) Withdraw(tool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withdrawn[tool] = true
}

// Offer adds n further tools, extra_000 and so on, for sessions that begin from now on.
func (s *Server) Offer(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extra = n
}

// List answers requests for the list of tools in place of the server.
func (s *Server) List(pages func(cursor string) (tools []any, next string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = pages
}

// Amnesia is how a server tells that it does not know a session.
type Amnesia string

const (
	// NotFound is 404, as the protocol wants it.
	NotFound Amnesia = "404"
	// NotFoundJSON is 404 with an error of JSON-RPC that belongs to no request.
	NotFoundJSON Amnesia = "404-json"
	// BadRequest is 400 with an error of JSON-RPC that belongs to no request, as widespread servers do it.
	BadRequest Amnesia = "400"
)

// Forget ends all sessions without telling anyone, as a restart does.
func (s *Server) Forget(how Amnesia) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.sessions {
		s.forgotten[id] = how
	}
}

// OnCall has f told of each call that was carried out, before it is answered.
func (s *Server) OnCall(f func(tool string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acted = f
}

// act carries out a call and is what it says.
func (s *Server) act(tool, key string, args map[string]any) string {
	said, acted := s.carryOut(tool, key, args)
	if acted != nil {
		acted(tool)
	}
	return said
}

// carryOut pays refunds once per key.
func (s *Server) carryOut(tool, key string, args map[string]any) (said string, acted func(string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Calls[tool]++
	if key != "" {
		s.counts.Keys[key]++
	}
	if tool == FindRefund {
		said, found := s.paid[fmt.Sprint(args["key"])]
		return fmt.Sprintf(`{"found":%t,"refund":%s}`, found, cmp.Or(said, "null")), s.acted
	}
	if tool != Refund {
		return fmt.Sprintf(`{"id":%q,"name":"Ada Lovelace","email":"ada@example.com","paid":["A-17"]}`, fmt.Sprint(args["id"])), s.acted
	}
	if before, again := s.paid[key]; again && key != "" && !s.options.IgnoreKeys {
		return before, s.acted
	}
	s.counts.Effects++
	said = fmt.Sprintf(`{"refund":"R-%d","customer":%q,"amount":%q}`, s.counts.Effects, fmt.Sprint(args["id"]), fmt.Sprint(args["amount"]))
	s.paid[key] = said
	s.log.Info("refund", "customer", args["id"], "amount", args["amount"], "effects", s.counts.Effects)
	return said, s.acted
}

// came writes a request down and reports whether it may enter.
func (s *Server) came(r *http.Request, method, tool string, body []byte) bool {
	allowed := s.options.RequireKey == "" || r.Header.Get("Authorization") == "Bearer "+s.options.RequireKey
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) < maxRequests {
		s.requests = append(s.requests, Request{r.Method, r.RequestURI, method, tool, r.Header.Clone(), body})
	}
	if tool != "" {
		s.counts.Requests[tool]++
	}
	if r.Method == http.MethodGet && method == "" && tool == "" {
		s.counts.Streams++
	}
	if !allowed {
		s.counts.Unauthorized++
	}
	s.log.InfoContext(r.Context(), "request", "http", r.Method, "path", r.URL.Path, "method", method, "tool", tool, "authorized", allowed)
	return allowed
}

const (
	maxRequests = 10_000
	maxBody     = 8 << 20
)

// wait is true once after has passed, and false when the client or the server goes first. Zero waits for their going.
func (s *Server) wait(r *http.Request, after time.Duration) bool {
	var timer <-chan time.Time
	if after > 0 {
		t := time.NewTimer(after)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
		return true
	case <-r.Context().Done():
		return false
	case <-s.done:
		return false
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // The client may be gone.
}
