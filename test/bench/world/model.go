package world

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/ekiden-dev/ekiden/test/modelserver"
)

// Tool is the name of the tool by which the model acts.
const Tool = "act"

// model proposes the effects of a run one after the other, then says that it is done. What it says depends on the conversation
// alone, so that an answer which a kill has swallowed is given again.
type model struct{ turns []http.Handler }

func newModel(steps int) *model {
	m := &model{}
	for i := range steps {
		m.turns = append(m.turns, modelserver.New(modelserver.One(modelserver.Step{Calls: &modelserver.Calls{List: []modelserver.Call{
			{Name: Tool, Arguments: fmt.Sprintf(`{"run":"{{task}}","step":"%d"}`, i)},
		}}}), nil))
	}
	m.turns = append(m.turns, modelserver.New(modelserver.One(modelserver.Step{Text: "All is done."}), nil))
	return m
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 32<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var said struct {
		Messages []struct {
			Role string `json:"role"`
		} `json:"messages"`
	}
	_ = json.Unmarshal(body, &said) // what does not parse is refused below
	turn := 0
	for _, message := range said.Messages {
		if message.Role == "assistant" {
			turn++
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	m.turns[min(turn, len(m.turns)-1)].ServeHTTP(w, r)
}
