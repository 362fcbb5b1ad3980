package http

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

// shown is what the model can read of a body. What the type promises is believed only where it promises no text.
func shown(contentType string, body []byte, size int64) string {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = "application/octet-stream"
	}
	family, _, _ := strings.Cut(kind, "/")
	switch {
	case len(body) == 0:
		return ""
	case family == "image", family == "audio", family == "video", family == "font":
		return wire.NotShown(kind, size)
	case legible(body), family == "text":
		return string(body)
	default:
		return wire.NotShown(kind, size)
	}
}

// legible reports whether the body is text. It may end within a rune, where it was cut.
func legible(body []byte) bool {
	if bytes.IndexByte(body, 0) >= 0 {
		return false
	}
	for cut := 0; cut < utf8.UTFMax && cut < len(body); cut++ {
		if utf8.Valid(body[:len(body)-cut]) {
			return true
		}
	}
	return false
}
