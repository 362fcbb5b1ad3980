package postgres

import "time"

// SetWarmUp says how long Postgres must have been up before a lease counts as lapsed.
func (l *Ledger) SetWarmUp(d time.Duration) { l.warmUp = d }
