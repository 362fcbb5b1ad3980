package postgres

import (
	"context"
	"time"
)

// SetWarmUp says how long Postgres must have been up before a lapsed lease is taken over.
func (s *Store) SetWarmUp(d time.Duration) { s.warmUp = d }

// Interpret is interpret.
func Interpret(ctx context.Context, err error) error { return interpret(ctx, err) }
