package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
)

// model is what answers the agents: an endpoint of the user's, or a scripted one of the demo's.
type model struct {
	URL, Name, Key string
	// scripted is nil for the user's endpoint.
	scripted *served
}

// realModel is the endpoint that the environment names, if it does.
func realModel() (*model, error) {
	m := &model{URL: os.Getenv("MODEL_URL"), Name: os.Getenv("MODEL_NAME"), Key: os.Getenv("MODEL_API_KEY")}
	switch {
	case m.URL == "" && m.Name == "" && m.Key == "":
		return nil, nil
	case m.URL == "" || m.Name == "" || m.Key == "":
		return nil, errors.New("MODEL_URL, MODEL_NAME and MODEL_API_KEY belong together: set all three, or none for a scripted model")
	default:
		return m, nil
	}
}

// startModel starts the scripted model and waits until it listens.
func startModel(ctx context.Context, p place) (*model, error) {
	s, err := p.serve(ctx, "model", "modelserver", "--script", scriptFile(p))
	if err != nil {
		return nil, err
	}
	return &model{URL: s.url("/v1"), Name: "scripted", scripted: s}, nil
}

// stop ends a scripted model that this process has started.
func (m *model) stop() error {
	if m == nil {
		return nil
	}
	return m.scripted.stop()
}

// startOver makes a scripted model forget what it was asked, so that the same task gets the same answer again.
func (m *model) startOver(ctx context.Context) error {
	if m == nil || m.scripted == nil {
		return nil
	}
	_, err := m.scripted.ask(ctx, http.MethodPost, "/control/reset")
	return err
}

// asked is how many requests a conversation has cost whose task holds the words.
func (m *model) asked(ctx context.Context, words string) (int, error) {
	body, err := m.scripted.ask(ctx, http.MethodGet, "/control/requests")
	if err != nil {
		return 0, err
	}
	var report struct {
		ByKey map[string]int `json:"byKey"`
	}
	if err := json.Unmarshal(body, &report); err != nil {
		return 0, err
	}
	for task, n := range report.ByKey {
		if strings.Contains(task, words) {
			return n, nil
		}
	}
	return 0, nil
}
