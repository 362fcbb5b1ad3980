package modelserver_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/test/modelserver"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	body := func(messages string) string {
		return `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[` + messages + `]}`
	}
	const (
		user   = `{"role":"user","content":"hi"}`
		call   = `{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}`
		called = `{"role":"assistant","content":null,"tool_calls":[` + call + `]}`
		result = `{"role":"tool","tool_call_id":"a","content":"ok"}`
	)
	two := `{"role":"assistant","tool_calls":[` + call + `,` + strings.Replace(call, `"a"`, `"b"`, 1) + `]}`
	other := strings.Replace(result, `"a"`, `"b"`, 1)
	rows := map[string]struct{ given, want string }{
		"a task":                               {body(user), ""},
		"a system message and a task":          {body(`{"role":"system","content":"s"},` + user), ""},
		"a task in parts":                      {body(`{"role":"user","content":[{"type":"text","text":"hi"}]}`), ""},
		"a call and its result":                {body(user + "," + called + "," + result), ""},
		"two calls and their results":          {body(user + "," + two + "," + result + "," + other), ""},
		"an id that is used again later":       {body(user + "," + called + "," + result + "," + called + "," + result), ""},
		"no stream and no options":             {`{"model":"m","messages":[` + user + `]}`, ""},
		"a whole surrogate pair":               {body(`{"role":"user","content":"\ud83d\ude00"}`), ""},
		"an escaped backslash before u0000":    {body(`{"role":"user","content":"\\u0000"}`), ""},
		"no JSON":                              {`{`, "the body does not parse: unexpected end of JSON input"},
		"invalid UTF-8":                        {body(`{"role":"user","content":"` + "\xff" + `"}`), "the body is not valid UTF-8"},
		"NUL":                                  {body(`{"role":"user","content":"a\u0000"}`), "the body holds NUL"},
		"the first half of a surrogate pair":   {body(`{"role":"user","content":"\uD83Dx"}`), "the body holds half of a surrogate pair"},
		"the second half of a surrogate pair":  {body(`{"role":"user","content":"\ude00"}`), "the body holds half of a surrogate pair"},
		"no model":                             {`{"messages":[` + user + `]}`, "model is empty"},
		"no messages":                          {body(""), "messages is empty"},
		"a stream without usage":               {`{"model":"m","stream":true,"messages":[` + user + `]}`, "a stream is asked for without stream_options.include_usage, so nobody would know what it cost"},
		"stream options without a stream":      {`{"model":"m","stream_options":{},"messages":[` + user + `]}`, "stream_options is only for streams"},
		"two bounds":                           {`{"model":"m","max_tokens":1,"max_completion_tokens":1,"messages":[` + user + `]}`, "max_tokens and max_completion_tokens exclude each other"},
		"a bound of zero":                      {`{"model":"m","max_tokens":0,"messages":[` + user + `]}`, "the bound of output tokens is less than 1"},
		"a late system message":                {body(user + `,{"role":"system","content":"s"},` + user), "messages[1]: role system comes first or not at all"},
		"an unknown role":                      {body(`{"role":"robot","content":"s"}`), `messages[0]: role "robot" is unknown`},
		"an empty task":                        {body(`{"role":"user","content":""}`), "messages[0]: the user message is empty"},
		"the model first":                      {body(`{"role":"assistant","content":"hi"},` + user), "messages[0]: the conversation begins with the model"},
		"the model last":                       {body(user + `,{"role":"assistant","content":"hi"}`), "the last message is of role assistant: there is nothing to answer"},
		"an answer of nothing":                 {body(user + `,{"role":"assistant","content":null},` + user), "messages[1]: the assistant message has neither content nor calls"},
		"no calls in a list":                   {body(user + `,{"role":"assistant","content":"a","tool_calls":[]},` + user), "messages[1]: tool_calls is there but empty"},
		"a call without its result":            {body(user + "," + called + "," + user), `messages[2]: call "a" has no result`},
		"a call without its result at the end": {body(user + "," + called), `call "a" has no result`},
		"one result of two":                    {body(user + "," + two + "," + result), `call "b" has no result`},
		"results in the wrong order":           {body(user + "," + two + "," + other + "," + result), `messages[2]: the result of "b" comes where that of "a" is due`},
		"two results of one call":              {body(user + "," + called + "," + result + "," + result), `messages[3]: the result of "a" answers no call`},
		"a result without content":             {body(user + "," + called + `,{"role":"tool","tool_call_id":"a"}`), "messages[2]: the result has no content"},
		"a call without an id":                 {body(user + "," + strings.Replace(called, `"a"`, `""`, 1) + "," + result), "messages[1]: a call has no id"},
		"two calls with one id":                {body(user + `,{"role":"assistant","tool_calls":[` + call + `,` + call + `]},` + result + "," + result), `messages[1]: two calls have the id "a"`},
		"a call of another type":               {body(user + "," + strings.Replace(called, `"function",`, `"custom",`, 1) + "," + result), `messages[1]: call "a" is of type "custom"`},
		"a call without a name":                {body(user + "," + strings.Replace(called, `"f"`, `""`, 1) + "," + result), `messages[1]: call "a" has no name`},
		"arguments that are no JSON":           {body(user + "," + strings.Replace(called, `"{}"`, `"{"`, 1) + "," + result), `messages[1]: the arguments of call "a" are not JSON in a string`},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := modelserver.Validate([]byte(row.given)); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
