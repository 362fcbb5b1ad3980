package cluster

import (
	"strings"
	"testing"
)

func TestNodeFromEnvironment(t *testing.T) {
	for given, tc := range map[string]struct{ want, refusal string }{
		"":        {want: NodeProcess},
		"process": {want: NodeProcess},
		"kubelet": {want: NodeKubelet},
		"kind":    {refusal: "kind needs Docker"},
		"Kubelet": {refusal: `NODE is process or kubelet, not "Kubelet"`},
	} {
		t.Setenv("NODE", given)
		got, err := NodeFromEnvironment()
		if got != tc.want || (err == nil) != (tc.refusal == "") || err != nil && !strings.Contains(err.Error(), tc.refusal) {
			t.Errorf("NODE=%s: %q, %v", given, got, err)
		}
	}
}

func TestAKubeletsNodeIsToldWhereImagesAre(t *testing.T) {
	t.Parallel()
	c := &Cluster{Options: Options{Repo: t.TempDir(), Node: NodeKubelet}}
	if flags, err := c.node(); err == nil || !strings.Contains(err.Error(), "make images") {
		t.Errorf("without images: %v, %v", flags, err)
	}
}
