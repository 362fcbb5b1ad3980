package openai

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"strings"
	"time"

	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// DialWith makes c dial in another way, for tests whose network is not one.
func (c *Client) DialWith(dial func(context.Context, string, string) (net.Conn, error)) {
	c.transport.DialContext = dial
}

// Read reads an answer from the body of a response.
func (c *Client) Read(body []byte) (a segment.Answer, emitted string, err error) {
	var told strings.Builder
	_, w := timeouts{time.Hour, time.Hour, time.Hour}.watch(context.Background())
	defer w.stop()
	x := &exchange{client: c, watch: w, message: newMessage(func(s string) { told.WriteString(s) })}
	if err = x.read(bufio.NewReader(bytes.NewReader(body)), "text/event-stream"); !x.message.whole() {
		return x.partial(), told.String(), err
	}
	a = x.answer()
	return a, told.String(), nil
}
