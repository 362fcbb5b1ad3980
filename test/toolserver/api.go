package toolserver

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
)

// api serves the tools as a plain HTTP API.
func (s *Server) api() {
	s.mux.HandleFunc("GET /api/customers/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, GetCustomer, map[string]any{"id": r.PathValue("id")}, nil)
	})
	if s.options.Find {
		s.mux.HandleFunc("GET /api/refunds/{key}", func(w http.ResponseWriter, r *http.Request) {
			s.answer(w, r, FindRefund, map[string]any{"key": r.PathValue("key")}, nil)
		})
	}
	s.mux.HandleFunc("POST /api/customers/{id}/refunds", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		args := map[string]any{}
		if err != nil || json.Unmarshal(body, &args) != nil {
			http.Error(w, "the body is no JSON object", http.StatusBadRequest)
			return
		}
		args["id"] = r.PathValue("id")
		s.answer(w, r, Refund, args, body)
	})
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, tool string, args map[string]any, body []byte) {
	if !s.came(r, "", tool, body) {
		http.Error(w, "the key is not the one this server wants", http.StatusUnauthorized)
		return
	}
	mood, key := s.mood(tool), r.Header.Get("Idempotency-Key")
	if s.spoiled(w, r, mood, func() { s.act(tool, key, args) }) {
		return
	}
	if mood.Problem != "" {
		http.Error(w, mood.Problem, cmp.Or(mood.Status, http.StatusUnprocessableEntity))
		return
	}
	said := s.act(tool, key, args)
	switch {
	case mood.Image:
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(image)
		return
	case mood.Fail:
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusConflict)
	default:
		w.Header().Set("Content-Type", "application/json")
	}
	_, _ = io.WriteString(w, mood.text(said, r.Header.Get("Authorization")))
}

// control is how a demonstration looks and meddles. It wants no key.
func (s *Server) control() {
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	s.mux.HandleFunc("GET /counts", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.Counts()) })
	s.mux.HandleFunc("POST /control/reset", func(w http.ResponseWriter, _ *http.Request) { s.Reset(); w.WriteHeader(http.StatusNoContent) })
	s.mux.HandleFunc("POST /control/forget", func(w http.ResponseWriter, r *http.Request) {
		how := Amnesia(r.URL.Query().Get("how"))
		if how != NotFoundJSON && how != BadRequest {
			how = NotFound
		}
		s.Forget(how)
		w.WriteHeader(http.StatusNoContent)
	})
	s.mux.HandleFunc("POST /control/tools/{tool}/mood", func(w http.ResponseWriter, r *http.Request) {
		var m Mood
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		d.DisallowUnknownFields()
		if err := d.Decode(&m); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.Behave(r.PathValue("tool"), m)
		w.WriteHeader(http.StatusNoContent)
	})
	s.mux.HandleFunc("POST /control/tools/{tool}/description", func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.Describe(r.PathValue("tool"), string(b))
		w.WriteHeader(http.StatusNoContent)
	})
}
