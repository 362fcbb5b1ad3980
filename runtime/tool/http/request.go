package http

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	nethttp "net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

// request is the request of a call. The error is a *wire.Fault: arguments that make no request now make none later.
func (s *Server) request(ctx context.Context, r wire.Request) (*nethttp.Request, error) {
	args := map[string]json.RawMessage{}
	if err := json.Unmarshal(r.Arguments, &args); err != nil {
		return nil, impossible("the arguments are no JSON object")
	}
	to, used, err := s.address(r.Tool.HTTP, args)
	if err != nil {
		return nil, err
	}
	var body []byte
	if r.Tool.HTTP.Body == v1alpha1.HTTPBodyRest {
		if body, err = rest(args, used); err != nil {
			return nil, err
		}
	}
	req, err := nethttp.NewRequestWithContext(ctx, string(r.Tool.HTTP.Method), to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, impossible("the definition of the tool makes no request")
	}
	if len(body) == 0 {
		req.Body = nethttp.NoBody
	}
	req.Header = wire.Headers(s.server, r.Secret)
	req.Header.Set("Accept", "application/json, text/*;q=0.9, */*;q=0.5")
	req.Header.Set(wire.IdempotencyHeader, r.Key)
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

func impossible(format string, args ...any) error {
	return &wire.Fault{Certainty: wire.NotDone, Final: true, Text: "nothing was sent: " + fmt.Sprintf(format, args...)}
}

// address is the URL of a call, and the arguments that went into it.
func (s *Server) address(c v1alpha1.CompiledRequest, args map[string]json.RawMessage) (*url.URL, []string, error) {
	path, used, err := fill(c.Path, args)
	if err != nil {
		return nil, nil, err
	}
	to, err := url.Parse(strings.TrimSuffix(s.base.String(), "/") + path)
	if err != nil || to.Host != s.base.Host || to.Scheme != s.base.Scheme || to.User != nil {
		return nil, nil, impossible("the path of the tool makes no URL of its server")
	}
	query := url.Values{}
	for _, name := range c.Query {
		used = append(used, name)
		values, err := listed(name, args[name])
		if err != nil {
			return nil, nil, err
		}
		if len(values) > 0 {
			query[name] = values
		}
	}
	to.RawQuery = query.Encode()
	return to, used, nil
}

// fill puts arguments into the names in braces, and is the names too. Each argument stays within its segment of the path;
// one that would make its segment step up or aside is refused, because servers clean such paths however they are escaped.
func fill(template string, args map[string]json.RawMessage) (string, []string, error) {
	var used []string
	segments := strings.Split(template, "/")
	for i, segment := range segments {
		var out strings.Builder
		for rest := segment; rest != ""; {
			before, after, some := strings.Cut(rest, "{")
			out.WriteString(before)
			if !some {
				break
			}
			name, after, closed := strings.Cut(after, "}")
			if !closed {
				return "", nil, impossible("the path of the tool has a brace that is not closed")
			}
			value, err := scalar(name, args[name])
			if err != nil {
				return "", nil, err
			}
			if value == "" {
				return "", nil, impossible("the argument %q is missing or empty, and the path needs it", name)
			}
			used = append(used, name)
			out.WriteString(url.PathEscape(value))
			rest = after
		}
		if segments[i] = out.String(); len(used) > 0 && (segments[i] == "." || segments[i] == "..") {
			return "", nil, impossible("an argument makes a part of the path %q, which would change where it leads", segments[i])
		}
	}
	return strings.Join(segments, "/"), used, nil
}

// listed are the values of a query parameter: each of a list, or one.
func listed(name string, raw json.RawMessage) ([]string, error) {
	var list []json.RawMessage
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	var out []string
	for _, one := range list {
		value, err := scalar(name, one)
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
	return out, nil
}

// scalar is the text of a string, a number or a truth value; empty for one that is not there.
func scalar(name string, raw json.RawMessage) (string, error) {
	var s string
	switch {
	case len(raw) == 0, string(raw) == "null":
		return "", nil
	case raw[0] == '{', raw[0] == '[':
		return "", impossible("the argument %q is a list or an object, which has no place in a URL", name)
	case raw[0] != '"':
		return string(raw), nil // as it is written: a float would round it
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", impossible("the argument %q is no text", name)
	}
	return s, nil
}

// rest is a JSON object of the arguments that are not used.
func rest(args map[string]json.RawMessage, used []string) ([]byte, error) {
	left := map[string]json.RawMessage{}
	for name, value := range args {
		if !slices.Contains(used, name) {
			left[name] = value
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(left); err != nil {
		return nil, impossible("the arguments make no JSON object")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
