package postgres

import (
	"context"
	"time"
)

// SetWarmUp says how long Postgres must have been up before a lapsed lease is taken over.
func (s *Store) SetWarmUp(d time.Duration) { s.warmUp = d }

// SetOverstay says how long a transaction may hold up a claim.
func (s *Store) SetOverstay(d time.Duration) { s.overstay = d }

// SetAnswerWithin says how long an answer is waited for.
func (s *Store) SetAnswerWithin(d time.Duration) { s.answerWithin = d }

// Interpret is interpret.
func Interpret(ctx context.Context, err error) error { return interpret(ctx, err) }
