package toolserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools.
const (
	GetCustomer = "get_customer"
	Refund      = "refund"
	FindRefund  = "find_refund"
)

// Schemas of the tools' arguments.
const (
	CustomerSchema = `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`
	FindSchema     = `{"type":"object","properties":{"key":{"type":"string"}},"required":["key"],"additionalProperties":false}`
	RefundSchema   = `{"type":"object","properties":{"id":{"type":"string"},"amount":{"type":"string"},"reason":{"type":"string"}},"required":["id","amount"],"additionalProperties":false}`
)

// Descriptions are what the server says about its tools.
var Descriptions = map[string]string{
	GetCustomer: "Look up a customer by id.",
	Refund:      "Pay money back to a customer.",
	FindRefund:  "Look up a refund by the Idempotency-Key of its call.",
}

// image is not much of one.
var image = bytes.Repeat([]byte{0x89, 'P', 'N', 'G'}, 1280)

// offer is a server of the protocol with the tools of this moment.
func (s *Server) offer() *mcp.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	srv := mcp.NewServer(&mcp.Implementation{Name: "toolserver", Version: "1"}, &mcp.ServerOptions{PageSize: s.options.PageSize})
	for _, t := range []struct{ name, schema string }{{GetCustomer, CustomerSchema}, {Refund, RefundSchema}, {FindRefund, FindSchema}} {
		if s.withdrawn[t.name] || t.name == FindRefund && !s.options.Find {
			continue
		}
		said := Descriptions[t.name]
		if other, ok := s.said[t.name]; ok {
			said = other
		}
		srv.AddTool(&mcp.Tool{Name: t.name, Description: said, InputSchema: json.RawMessage(t.schema)}, s.call)
	}
	for i := range s.extra {
		srv.AddTool(&mcp.Tool{Name: fmt.Sprintf("extra_%03d", i), Description: "One of many.", InputSchema: json.RawMessage(`{"type":"object"}`)}, s.call)
	}
	return srv
}

// door stands before the protocol: it counts, turns away, and spoils answers below the protocol.
func (s *Server) door(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name, Cursor string
			Arguments    map[string]any
		}
	}
	_ = json.Unmarshal(body, &m) // what is no message has no method
	tool := ""
	if m.Method == "tools/call" {
		tool = m.Params.Name
	}
	if !s.came(r, m.Method, tool, body) {
		http.Error(w, "the key is not the one this server wants", http.StatusUnauthorized)
		return
	}
	if how, forgotten := s.knows(r.Header.Get("Mcp-Session-Id"), m.Method); forgotten {
		how.answer(w)
		return
	}
	if m.Method == "tools/list" && s.list(w, m.ID, m.Params.Cursor) {
		return
	}
	if tool != "" {
		mood, key := s.mood(tool), r.Header.Get("Idempotency-Key")
		if s.spoiled(w, r, mood, func() { s.act(tool, key, m.Params.Arguments) }) {
			return
		}
		if mood.Problem != "" {
			writeJSON(w, cmp.Or(mood.Status, http.StatusOK), map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32000, "message": mood.Problem}})
			return
		}
		// The protocol hands the tool a context of its own, but the headers of the request.
		r.Header.Set(moodHeader, encode(mood))
	}
	s.protocol.ServeHTTP(w, r)
}

// moodHeader carries the mood of a call through the protocol to the tool.
const moodHeader = "X-Toolserver-Mood"

func encode(m Mood) string {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // a struct of values
	}
	return string(b)
}

func (s *Server) call(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var m Mood
	var args map[string]any
	if err := json.Unmarshal([]byte(req.Extra.Header.Get(moodHeader)), &m); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
		return nil, err
	}
	said := s.act(req.Params.Name, req.Extra.Header.Get("Idempotency-Key"), args)
	switch {
	case m.Ask:
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"sure": &mcp.ElicitParams{Message: "Are you sure?", RequestedSchema: json.RawMessage(`{"type":"object"}`)}}}, nil
	case m.Image:
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "the customer:"}, &mcp.ImageContent{MIMEType: "image/png", Data: image}}}, nil
	case m.Structured:
		return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: json.RawMessage(said)}, nil
	default:
		return &mcp.CallToolResult{IsError: m.Fail, Content: []mcp.Content{&mcp.TextContent{Text: m.text(said, req.Extra.Header.Get("Authorization"))}}}, nil
	}
}

// knows reports whether a session was forgotten, and how that is told.
func (s *Server) knows(session, method string) (Amnesia, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if method == "initialize" {
		s.counts.Sessions++
	}
	if session == "" {
		return "", false
	}
	s.sessions[session] = true
	how, forgotten := s.forgotten[session]
	return how, forgotten
}

func (a Amnesia) answer(w http.ResponseWriter) {
	problem := map[string]any{"jsonrpc": "2.0", "error": map[string]any{"code": -32000, "message": "Bad Request: No valid session ID provided"}, "id": nil}
	switch a {
	case NotFound:
		http.Error(w, "session not found", http.StatusNotFound)
	case NotFoundJSON:
		writeJSON(w, http.StatusNotFound, problem)
	case BadRequest:
		writeJSON(w, http.StatusBadRequest, problem)
	}
}

// list answers with the pages that a test wants. It is false if the protocol is to answer.
func (s *Server) list(w http.ResponseWriter, id json.RawMessage, cursor string) bool {
	s.mu.Lock()
	pages := s.pages
	s.mu.Unlock()
	if pages == nil {
		return false
	}
	tools, next := pages(cursor)
	result := map[string]any{"tools": tools}
	if next != "" {
		result["nextCursor"] = next
	}
	writeJSON(w, http.StatusOK, map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
	return true
}
