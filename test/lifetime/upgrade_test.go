package lifetime

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/hack/cluster"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// previous is the commit that stands for the version before this one, as long as none has been released: the last one before
// Ekiden could be installed from a chart.
const previous = "d38f039"

// TestUpgradeAndBack installs the version before, lets one run wait for people and another one work, and installs this version over
// it. Each goes on with the new manager; nothing is asked of the model or done by a tool again. Then somebody takes the upgrade back
// while runs of this version wait and work: the manager before goes on with them, on tables that are newer than it.
func TestUpgradeAndBack(t *testing.T) {
	t.Parallel()
	s := begin(t, before(t))
	s.install()
	s.employ(refunding("parked"), slow("working"), refunding("afterwards"), refunding("parked-back"), slow("working-back"))
	s.start("parked")
	s.until("parked", v1alpha1.RunWaiting)
	s.start("working")
	s.asked(3) // the model thinks about what it was told of the customer
	first := s.images()

	s.upgrade()
	if got := s.images(); !slices.Equal(got, first) {
		t.Fatalf("the upgrade made or lost segments: %v, then %v", first, got)
	}
	s.model.Open("working")
	s.until("working", v1alpha1.RunSucceeded)
	s.approve()
	s.until("parked", v1alpha1.RunSucceeded)
	s.wantSaid(4)
	s.wantRefunds(1)

	s.start("afterwards")
	s.until("afterwards", v1alpha1.RunWaiting)
	s.approve()
	s.until("afterwards", v1alpha1.RunSucceeded)
	s.wantSaid(6)
	s.wantRefunds(2)
	// Both kinds of pods have worked: the story has shown what it is about.
	got := strings.Join(s.images(), " ")
	if !strings.Contains(got, first[0]) || !strings.Contains(got, next("segment")) {
		t.Errorf("the segments had the images %s", got)
	}

	s.start("parked-back")
	s.until("parked-back", v1alpha1.RunWaiting)
	s.start("working-back")
	s.asked(9)
	before := s.images()
	s.takeBack()
	if got := s.images(); !slices.Equal(got, before) {
		t.Fatalf("taking the upgrade back made or lost segments: %v, then %v", before, got)
	}
	s.model.Open("working-back")
	s.until("working-back", v1alpha1.RunSucceeded)
	s.approve()
	s.until("parked-back", v1alpha1.RunSucceeded)
	s.wantSaid(10)
	s.wantRefunds(3)
}

// before makes a folder with the version before: its programs and its manifests.
func before(t *testing.T) string {
	t.Helper()
	git := func(args ...string) error {
		return exec.CommandContext(t.Context(), "git", append([]string{"-C", root()}, args...)...).Run()
	}
	if git("cat-file", "-e", previous+"^{commit}") != nil {
		t.Skipf("SKIPPED: the commit %s is not in this clone; git fetch --unshallow brings it", previous)
	}
	dir := t.TempDir()
	archive := filepath.Join(dir, "before.tar")
	if err := git("archive", "--output="+archive, previous); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "tar", "-xf", archive)
	for program, pkg := range map[string]string{"manager": ".", "segment": "./runtime/cmd/segment"} {
		run(t, dir, "go", "build", "-ldflags=-s -w -X main.version=before", "-o", filepath.Join("bin", program), pkg)
	}
	if err := os.Symlink(filepath.Join(root(), "bin", "devcluster"), filepath.Join(dir, "bin", "devcluster")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// install installs what is in the cluster's folder.
func (s *story) install() {
	s.Helper()
	if err := s.cluster.Install(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// next is the image of a program of this version.
func next(program string) string { return "ekiden/" + program + ":next" }

// upgrade applies config/default of this version, with images of other names, as a release has them.
func (s *story) upgrade() {
	s.Helper()
	args := []string{"up", "--dir", s.cluster.Dir}
	for _, program := range []string{"manager", "segment"} {
		args = append(args, "--image", next(program)+"="+filepath.Join(s.repo, "bin", program))
	}
	run(s.T, s.repo, filepath.Join(s.repo, "bin", "devcluster"), args...)
	s.apply(strings.ReplaceAll(s.kubectl("kustomize", filepath.Join(s.repo, "config", "default")), ":dev", ":next"))
}

// takeBack applies config/default of the version before.
func (s *story) takeBack() {
	s.Helper()
	s.apply(s.kubectl("kustomize", filepath.Join(s.cluster.Repo, "config", "default")))
}

// apply applies manifests as who upgrades does, and waits for the manager that they say.
func (s *story) apply(manifests string) {
	s.Helper()
	if _, err := s.cluster.KubectlIn(s.Context(), manifests, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		s.Fatal(err)
	}
	s.kubectl("-n", cluster.ManagerNamespace, "rollout", "status", "deployment/ekiden-manager", "--timeout=180s")
}

// images are those of all segments that were ever made and are still there, a line for each.
func (s *story) images() []string {
	s.Helper()
	var jobs batchv1.JobList
	if err := s.api.List(context.WithoutCancel(s.Context()), &jobs, client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelSegment}); err != nil {
		s.Fatal(err)
	}
	var images []string
	for _, j := range jobs.Items {
		images = append(images, j.Spec.Template.Spec.Containers[0].Image)
	}
	slices.Sort(images)
	return images
}

// wantSaid checks how often the model was asked: more would be work done twice.
func (s *story) wantSaid(n int) {
	s.Helper()
	if got := s.model.Report().Total; got != n {
		s.Errorf("the model saw %d requests, want %d", got, n)
	}
	for _, e := range s.model.Report().Log {
		if e.Violation != "" {
			s.Errorf("request %d of %q broke the protocol: %s", e.N, e.Key, e.Violation)
		}
	}
}

func (s *story) wantRefunds(n int) {
	s.Helper()
	if got := s.tools.Counts().Calls[toolserver.Refund]; got != n {
		s.Errorf("%d refunds were carried out, want %d", got, n)
	}
}
