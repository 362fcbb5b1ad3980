package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"strings"
)

// tools are what the agents act with: an MCP server that looks up customers and pays refunds, and counts both.
type tools struct {
	*served
	// key is what the server wants to see with each request.
	key string
}

func startTools(ctx context.Context, p place) (*tools, error) {
	key := rand.Text()
	file := p.own("tools.key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		return nil, err
	}
	s, err := p.serve(ctx, "tools", "toolserver", "--key-file", file)
	if err != nil {
		return nil, err
	}
	return &tools{served: s, key: key}, nil
}

func (t *tools) stop() error {
	if t == nil {
		return nil
	}
	return t.served.stop()
}

// counts is as much of what the server has counted as the demo looks at.
type counts struct {
	Calls   map[string]int `json:"calls"`
	Effects int            `json:"effects"`
}

// counted is what the server has counted, also as it says it.
func (t *tools) counted(ctx context.Context) (c counts, said string, err error) {
	body, err := t.ask(ctx, http.MethodGet, "/counts")
	if err != nil {
		return c, "", err
	}
	return c, strings.TrimSpace(string(body)), json.Unmarshal(body, &c)
}
