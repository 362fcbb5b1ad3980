package world

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Client speaks to a world.
type Client struct {
	URL  string
	http http.Client
}

// Dial is a client of the world at the address.
func Dial(url string) *Client {
	return &Client{URL: url, http: http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}}
}

// Act has the effect done and waits for it.
func (c *Client) Act(ctx context.Context, e Effect) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/effects", bytes.NewReader(body))
	if err != nil {
		return err
	}
	// No second try by the transport: what is repeated is the engine's to decide.
	req.GetBody = nil
	_, err = c.do(req)
	return err
}

// Report is what the world has seen.
func (c *Client) Report(ctx context.Context) (Report, error) {
	var r Report
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/report", nil)
	if err != nil {
		return r, err
	}
	body, err := c.do(req)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(body, &r)
}

func (c *Client) do(req *http.Request) ([]byte, error) {
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the world: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("asking the world: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the world answered %s: %s", res.Status, body)
	}
	return body, nil
}
