package growth

import (
	"encoding/base64"
	"math/rand/v2"
)

// Text is n bytes that no compression makes shorter than three quarters, the same for each seed: what is written is then not
// smaller than what is said.
func Text(seed uint64, n int) string {
	draw := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // words, no secrets
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(draw.Uint32())
	}
	return base64.StdEncoding.EncodeToString(raw)[:n]
}
