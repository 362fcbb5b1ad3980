package sim

// shrink makes a schedule that breaks a law smaller while it still breaks the same one: it leaves runs of steps out, and makes
// steps fair, from many at a time down to one by one.
func shrink(s Schedule, fails func(Schedule) bool) Schedule {
	try := func(smaller Schedule) bool {
		if !fails(smaller) {
			return false
		}
		s = smaller
		return true
	}
	for size := max(len(s.Steps)/2, 1); ; size /= 2 {
		for at := 0; at < len(s.Steps); {
			if !try(without(s, at, size)) {
				at += size
			}
		}
		for at := 0; at < len(s.Steps); at += size {
			if !zero(s.Steps[at:min(at+size, len(s.Steps))]) {
				try(fairAt(s, at, size))
			}
		}
		if size == 1 {
			return s
		}
	}
}

func without(s Schedule, at, size int) Schedule {
	end := min(at+size, len(s.Steps))
	return Schedule{s.Setting, append(append([]uint64(nil), s.Steps[:at]...), s.Steps[end:]...)}
}

func fairAt(s Schedule, at, size int) Schedule {
	steps := append([]uint64(nil), s.Steps...)
	clear(steps[at:min(at+size, len(steps))])
	return Schedule{s.Setting, steps}
}

func zero(steps []uint64) bool {
	for _, n := range steps {
		if n != 0 {
			return false
		}
	}
	return true
}
