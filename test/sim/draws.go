package sim

// Schedule is all that is left to chance in one history: a number a step. A step of number zero does what is fair and
// nothing bad but what its setting has in store, and so does every step behind the last. So a schedule is made smaller by leaving numbers out or by putting zeros
// in their place.
type Schedule struct {
	// Setting chooses the agent, the script and what may go wrong.
	Setting uint64
	Steps   []uint64
}

// Seeded is the schedule of a seed.
func Seeded(seed uint64) Schedule { return seeded(seed, nil) }

func seeded(seed uint64, room []uint64) Schedule {
	d := draws{seed | 1<<63}
	s := Schedule{Setting: d.next(), Steps: room[:0]}
	// What is early in a run, late in it, dense or sparse, each meets other faults.
	stage, dense := d.n(4), 1+d.n(4)
	lead := 16*stage + d.n(16)*min(stage, 1)
	for range lead {
		s.Steps = append(s.Steps, 0)
	}
	for range 30 + d.n(120) {
		number := d.next() | 1
		if d.n(4) >= dense {
			number = 0
		}
		s.Steps = append(s.Steps, number)
	}
	return s
}

// draws are the numbers that one step may use up. From zero come zeros only.
type draws struct{ state uint64 }

// next is splitmix64.
func (d *draws) next() uint64 {
	if d.state == 0 {
		return 0
	}
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// n draws from 0 to n-1.
func (d *draws) n(n int) int { return int((d.next() >> 33) % uint64(n)) }

// once is true one time in so many, and never for zero.
func (d *draws) once(in int) bool { return d.state != 0 && d.n(in) == 0 }
