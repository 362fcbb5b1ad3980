package launch

import "testing"

func TestMarked(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		given string
		want  bool
	}{
		"HOME is the folder":                 {"A=1\x00HOME=/pods\x00", true},
		"HOME is below the folder":           {"HOME=/pods/uid\x00A=1\x00", true},
		"HOME is a folder of a similar name": {"HOME=/pods2/uid\x00", false},
		"another variable names the folder":  {"MY_HOME=/pods/uid\x00DIR=/pods\x00", false},
		"there is no environment":            {"", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := marked([]byte(test.given), "/pods"); got != test.want {
				t.Errorf("marked(%q) = %v", test.given, got)
			}
		})
	}
}
