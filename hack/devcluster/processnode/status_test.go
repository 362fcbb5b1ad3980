package processnode

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestConclude(t *testing.T) {
	t.Parallel()
	exited := func(code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	tests := map[string]struct {
		given  []corev1.ContainerStatus
		cause  cause
		want   corev1.PodPhase
		reason string
	}{
		"all containers ended well":                       {[]corev1.ContainerStatus{exited(0), exited(0)}, causeNone, corev1.PodSucceeded, ""},
		"one container failed":                            {[]corev1.ContainerStatus{exited(0), exited(3)}, causeNone, corev1.PodFailed, ""},
		"one container never began":                       {[]corev1.ContainerStatus{exited(0), {}}, causeDeleted, corev1.PodFailed, ""},
		"the deadline came, however the containers ended": {[]corev1.ContainerStatus{exited(0)}, causeDeadline, corev1.PodFailed, "DeadlineExceeded"},
		"a deleted pod that ended well has succeeded":     {[]corev1.ContainerStatus{exited(0)}, causeDeleted, corev1.PodSucceeded, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: test.given}
			conclude(&status, test.cause)
			if status.Phase != test.want || status.Reason != test.reason {
				t.Errorf("got %s %q, want %s %q", status.Phase, status.Reason, test.want, test.reason)
			}
		})
	}
}

func TestLastLines(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		given string
		lines int
		want  string
	}{
		"fewer lines than asked for are all":   {"a\nb\n", 5, "a\nb\n"},
		"the last line":                        {"a\nb\n", 1, "b\n"},
		"a last line that is not ended counts": {"a\nb", 1, "b"},
		"an empty line is a line":              {"a\n\n", 1, "\n"},
		"of nothing there is nothing":          {"", 3, ""},
		"as many lines as there are, are all":  {"a\nb\nc\n", 3, "a\nb\nc\n"},
		"of many lines only those asked for":   {"a\nb\nc\n", 2, "b\nc\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(lastLines([]byte(test.given), test.lines)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	given := newAddresses(42)
	first := given.take()
	if first != "127.42.0.1" {
		t.Errorf("the first address is %s", first)
	}
	for range 253 {
		given.take()
	}
	given.release(first)
	if next := given.take(); next != "127.42.1.1" {
		t.Errorf("after 254 addresses comes %s, want the next net's first", next)
	}
}
