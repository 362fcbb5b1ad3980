package postgres

import "time"

// SetWarmUp says how long Postgres must have been up before a lease counts as lapsed.
func (l *Ledger) SetWarmUp(d time.Duration) { l.warmUp = d }

// SetOverstay says how long a tenant's transaction may keep the manager waiting.
func (l *Ledger) SetOverstay(d time.Duration) { l.overstay = d }
