package budget

import "github.com/ekiden-dev/ekiden/api/v1alpha1"

// Narrow is the tighter of each limit of a and b. A limit that is unset bounds nothing.
func Narrow(a, b v1alpha1.Limits) v1alpha1.Limits {
	return v1alpha1.Limits{
		Segments:      tighter(a.Segments, b.Segments),
		Turns:         tighter(a.Turns, b.Turns),
		ToolCalls:     tighter(a.ToolCalls, b.ToolCalls),
		ActiveSeconds: tighter(a.ActiveSeconds, b.ActiveSeconds),
	}
}

func tighter(a, b int32) int32 {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	default:
		return min(a, b)
	}
}
