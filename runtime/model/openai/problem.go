package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// problem is an error as an endpoint describes it.
type problem struct {
	Type, Code, Message string
}

// parseProblem reads the shapes in which errors come. It is false for a body that describes none.
func parseProblem(body []byte) (problem, bool) {
	body = bytes.TrimSpace(body)
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0] // Gemini wraps its errors in a list.
	}
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		return problem{}, false
	}
	inner, ok := outer["error"]
	switch {
	case ok && present(inner):
		var said string
		if json.Unmarshal(inner, &said) == nil {
			return problem{Type: word(outer["type"]), Code: word(outer["code"]), Message: said}, true
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(inner, &fields) != nil {
			return problem{}, true
		}
		return described(fields), true
	case string(outer["object"]) == `"error"`, !ok && present(outer["message"]):
		return described(outer), true
	case present(outer["detail"]):
		return problem{Message: word(outer["detail"])}, true
	default:
		return problem{}, false
	}
}

func described(f map[string]json.RawMessage) problem {
	p := problem{Type: word(f["type"]), Code: word(f["code"]), Message: word(f["message"])}
	if p.Type == "" {
		p.Type = word(f["status"]) // Gemini's name for it.
	}
	return p
}

// word is a string, or a number as one; anything else is not for people.
func word(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String()
	}
	return ""
}

// kind names the problem. Some gateways write None where there is no name.
func (p problem) kind() string {
	var out []string
	for _, s := range []string{p.Type, p.Code} {
		if s != "" && s != "None" && s != "null" && (len(out) == 0 || out[0] != s) {
			out = append(out, s)
		}
	}
	return strings.Join(out, "/")
}

// status is the HTTP status that the problem claims in its code, or 0.
func (p problem) status() int {
	for _, s := range []string{p.Code, p.Type} {
		if n, err := strconv.Atoi(s); err == nil && n >= 400 && n < 600 {
			return n
		}
	}
	return 0
}

// fault is what a name means.
type fault struct {
	code      string
	retryable bool
}

// byName looks the problem up by its code, then by its type. Servers vary in case, separators and endings.
func byName(p problem) (fault, bool) {
	for _, s := range []string{p.Code, p.Type} {
		s = strings.ToLower(s)
		s = strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(s)
		for _, end := range []string{"error", "exception"} {
			if len(s) > len(end) {
				s = strings.TrimSuffix(s, end)
			}
		}
		if f, ok := faults[s]; ok {
			return f, true
		}
	}
	return fault{}, false
}

var (
	rateLimited  = fault{CodeRateLimited, true}
	overloaded   = fault{CodeOverloaded, true}
	serverFault  = fault{CodeServerError, true}
	timedOut     = fault{CodeRequestTimeout, true}
	quota        = fault{v1alpha1.ReasonQuotaExhausted, false}
	overflow     = fault{v1alpha1.ReasonContextOverflow, false}
	filtered     = fault{v1alpha1.ReasonModelRefused, false}
	unauthorized = fault{v1alpha1.ReasonCredentialsRefused, false}
)

var faults = map[string]fault{
	"ratelimit": rateLimited, "ratelimitexceeded": rateLimited, "ratelimitreached": rateLimited, "toomanyrequests": rateLimited,
	"requests": rateLimited, "tokens": rateLimited, "resourceexhausted": rateLimited, "throttling": rateLimited,

	"overloaded": overloaded, "serveroverloaded": overloaded, "engineoverloaded": overloaded, "modeloverloaded": overloaded,
	"unavailable": overloaded, "serviceunavailable": overloaded, "serverbusy": overloaded,

	"server": serverFault, "api": serverFault, "internal": serverFault, "internalserver": serverFault, "badgateway": serverFault,
	"upstream": serverFault, "apiconnection": serverFault, "provider": serverFault, "streaming": serverFault,

	"timeout": timedOut, "requesttimeout": timedOut, "gatewaytimeout": timedOut, "deadlineexceeded": timedOut, "apitimeout": timedOut,

	"insufficientquota": quota, "billinghardlimitreached": quota, "billingnotactive": quota, "insufficientbalance": quota,

	"contextlengthexceeded": overflow, "contextwindowexceeded": overflow, "exceedcontextsize": overflow,
	"modelmaxprompttokensexceeded": overflow, "requesttoolarge": overflow,

	"contentfilter": filtered, "contentpolicyviolation": filtered,

	"authentication": unauthorized, "invalidapikey": unauthorized, "permission": unauthorized, "permissiondenied": unauthorized,
	"unauthenticated": unauthorized,
}
