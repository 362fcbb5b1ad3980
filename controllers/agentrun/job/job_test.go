package job

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/pod"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/given"
)

func TestName(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		run  string
		uid  types.UID
		key  lifecycle.AttemptKey
		want string
	}{
		"the name, a hash and two numbers": {run: "triage-4711", uid: "uid", want: "triage-4711-7b0b8a21-s0-a0"},
		"dots become dashes":               {run: "a.b.c", uid: "uid", key: lifecycle.AttemptKey{Segment: 3, Attempt: 12}, want: "a-b-c-7b0b8a21-s3-a12"},
		"a long name is cut":               {run: strings.Repeat("x", 253), uid: "uid", want: strings.Repeat("x", 40) + "-7b0b8a21-s0-a0"},
		"and does not end in a dash twice": {run: strings.Repeat("x", 38) + ".-.yz", uid: "uid", want: strings.Repeat("x", 38) + "-7b0b8a21-s0-a0"},
	}
	hash := lifecycle.Stem("x", "uid")[2:]
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(strings.ReplaceAll(tc.want, "7b0b8a21", hash), Name(tc.run, tc.uid, tc.key)); diff != "" {
				t.Errorf("Name() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNamesAreLegalAndOneAttempts tries names that are alike, with the greatest numbers there are.
func TestNamesAreLegalAndOneAttempts(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, run := range []string{"a", "a.b", "a-b", "a-b-s0-a0", "0", strings.Repeat("x", 40), strings.Repeat("x", 41), strings.Repeat("x.", 126) + "x", strings.Repeat("x", 253)} {
		for _, uid := range []types.UID{"0b5c1f5e-0000-4000-8000-000000000001", "0b5c1f5e-0000-4000-8000-000000000002"} {
			for _, k := range []lifecycle.AttemptKey{{}, {Attempt: 1}, {Segment: 1}, {Segment: 1, Attempt: 1}, {Segment: 11}, {Attempt: 11}, {Segment: 999, Attempt: 99999}} {
				name := Name(run, uid+types.UID(run), k)
				what := fmt.Sprint(run, uid, k)
				if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
					t.Errorf("%s: %q: %v", what, name, errs)
				}
				if other, taken := seen[name]; taken {
					t.Errorf("%q is the name of %s and of %s", name, other, what)
				}
				seen[name] = what
			}
		}
	}
}

// TestBuild compares the whole Job, so that nothing gets into a pod unseen.
func TestBuild(t *testing.T) {
	t.Parallel()
	run := given.Run("run.of.jane", "team")
	run.UID = "uid"
	labels := map[string]string{
		"ekiden.dev/run-uid": "uid", "ekiden.dev/root-uid": "uid", "ekiden.dev/segment": "2", "ekiden.dev/attempt": "1",
		"app.kubernetes.io/name": "ekiden-segment", "app.kubernetes.io/managed-by": "ekiden",
	}
	yes, no := true, false
	volume := func(name, secret, key, path string, optional *bool) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: secret, Items: []corev1.KeyToPath{{Key: key, Path: path}}, DefaultMode: ptr[int32](0o440), Optional: optional,
		}}}
	}
	whole := batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: Name("run.of.jane", "uid", lifecycle.AttemptKey{Segment: 2, Attempt: 1}), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "ekiden.dev/v1alpha1", Kind: "AgentRun", Name: "run.of.jane", UID: "uid", Controller: &yes, BlockOwnerDeletion: &yes}},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr[int32](0), TTLSecondsAfterFinished: ptr[int32](3600), PodReplacementPolicy: ptr(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"ekiden.dev/run": "run.of.jane"}},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
					TerminationGracePeriodSeconds: ptr[int64](30), ActiveDeadlineSeconds: ptr[int64](300 + 600 + 70 + 60),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: &yes, RunAsUser: ptr[int64](65532), RunAsGroup: ptr[int64](65532), FSGroup: ptr[int64](65532),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Volumes: []corev1.Volume{volume("postgres", "ekiden-postgres", "dsn", "dsn", &no), volume("model", "llm", "apiKey", "key", &yes)},
					Containers: []corev1.Container{{
						Name: "segment", Image: "registry.example/segment:1",
						Args: []string{
							"--run=uid", "--segment=2", "--attempt=1", "--dsn-file=/var/run/ekiden/postgres/dsn", "--termination-log=/dev/termination-log",
							"--credential-file=/var/run/ekiden/model/key",
						},
						Env: []corev1.EnvVar{{Name: "POD_NAME", ValueFrom: field("metadata.name")}, {Name: "POD_UID", ValueFrom: field("metadata.uid")}},
						VolumeMounts: []corev1.VolumeMount{
							{Name: "postgres", MountPath: "/var/run/ekiden/postgres", ReadOnly: true}, {Name: "model", MountPath: "/var/run/ekiden/model", ReadOnly: true},
						},
						TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
						Resources: corev1.ResourceRequirements{
							Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("48Mi")},
							Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
						},
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
					}},
				},
			},
		},
	}
	tests := map[string]struct {
		given contract.Terms
		want  func(*batchv1.Job)
	}{
		"an endpoint with a key": {
			given: contract.Terms{Segment: v1alpha1.SegmentTimers{HardSeconds: 120}, ActSeconds: 600, Credential: v1alpha1.KeyReference{Name: "llm", Key: "apiKey"}},
			want:  func(*batchv1.Job) {},
		},
		"servers with certificates of their own": {
			given: contract.Terms{
				Segment: v1alpha1.SegmentTimers{HardSeconds: 120}, ActSeconds: 600, Credential: v1alpha1.KeyReference{Name: "llm", Key: "apiKey"},
				CABundles: []contract.CABundle{{File: "model/ca.crt", Key: v1alpha1.KeyReference{Name: "corp", Key: "root"}}, {File: "tools/crm/ca.crt", Key: v1alpha1.KeyReference{Name: "crm", Key: "ca.crt"}}},
			},
			want: func(j *batchv1.Job) {
				p, c := &j.Spec.Template.Spec, &j.Spec.Template.Spec.Containers[0]
				source := func(name, key, path string) corev1.VolumeProjection {
					return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
						LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: []corev1.KeyToPath{{Key: key, Path: path}}, Optional: &yes,
					}}
				}
				p.Volumes = append(p.Volumes, corev1.Volume{Name: "ca", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{source("corp", "root", "model/ca.crt"), source("crm", "ca.crt", "tools/crm/ca.crt")}, DefaultMode: ptr[int32](0o440),
				}}})
				c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "ca", MountPath: "/var/run/ekiden/ca", ReadOnly: true})
				c.Args = append(c.Args, "--ca-dir=/var/run/ekiden/ca")
			},
		},
		"an endpoint without one, and segments longer than calls": {
			given: contract.Terms{Segment: v1alpha1.SegmentTimers{HardSeconds: 3600}, ActSeconds: 600},
			want: func(j *batchv1.Job) {
				p := &j.Spec.Template.Spec
				p.Volumes, p.Containers[0].VolumeMounts, p.Containers[0].Args = p.Volumes[:1], p.Containers[0].VolumeMounts[:1], p.Containers[0].Args[:5]
				p.ActiveDeadlineSeconds = ptr[int64](300 + 3600 + 70 + 60)
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, k := whole.DeepCopy(), lifecycle.AttemptKey{Segment: 2, Attempt: 1}
			tc.want(want)
			got := Build(run, k, tc.given, "registry.example/segment:1", pod.BuiltIn())
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Build() (-want +got):\n%s", diff)
			}
			if back, ok := Key(got.Spec.Template.Labels); !ok || back != k {
				t.Errorf("its labels name the attempt %+v", back)
			}
		})
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		given map[string]string
		want  bool
	}{
		"both numbers": {given: map[string]string{v1alpha1.LabelSegment: "0", v1alpha1.LabelAttempt: "0"}, want: true},
		"one of them":  {given: map[string]string{v1alpha1.LabelSegment: "0"}},
		"words":        {given: map[string]string{v1alpha1.LabelSegment: "x", v1alpha1.LabelAttempt: "0"}},
		"nothing":      {},
	} {
		if _, ok := Key(tc.given); ok != tc.want {
			t.Errorf("%s: got %v", name, ok)
		}
	}
}

func TestMade(t *testing.T) {
	t.Parallel()
	owned := func(owner types.UID, controller bool) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: &controller}}}}
	}
	for name, tc := range map[string]struct {
		given corev1.Pod
		want  int
	}{
		"the Job's own":                     {given: owned("job", true), want: 1},
		"another Job's":                     {given: owned("other", true)},
		"one that the Job does not control": {given: owned("job", false)},
		"nobody's, with our labels":         {given: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelSegment: "0", v1alpha1.LabelAttempt: "0"}}}},
	} {
		if got := Made([]corev1.Pod{tc.given}, "job"); len(got) != tc.want {
			t.Errorf("%s: got %d pods", name, len(got))
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	var (
		now        = metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
		job        = &batchv1.Job{}
		gone       *batchv1.Job
		going      = &batchv1.Job{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}
		suspended  = &batchv1.Job{Spec: batchv1.JobSpec{Suspend: ptr(true)}}
		conditions = func(kind batchv1.JobConditionType, status corev1.ConditionStatus) *batchv1.Job {
			return &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: kind, Status: status, Reason: "BackoffLimitExceeded", Message: "too often"}}}}
		}
		running = pods(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.ContainerStatuses = segment(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
		})
		stopping = with(running, func(p *corev1.Pod) { p.DeletionTimestamp = &now })
		waiting  = func(reason, message string) []corev1.Pod {
			return pods(func(p *corev1.Pod) {
				p.Status.ContainerStatuses = segment(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
			})
		}
		condition = func(c corev1.PodCondition) func(*corev1.Pod) {
			return func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, c) }
		}
		target = condition(corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Message: "preempted by a better one"})
		failed = func(reason, message string) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, reason, message
			}
		}
		end = func(class lifecycle.AttemptClass, message string) lifecycle.Sighting {
			return lifecycle.Sighting{State: lifecycle.Ended, End: lifecycle.AttemptEnd{Class: class, Message: message, Terminated: true}}
		}
		unseen = func(class lifecycle.AttemptClass, message string) lifecycle.Sighting {
			return lifecycle.Sighting{State: lifecycle.Ended, End: lifecycle.AttemptEnd{Class: class, Message: message}}
		}
		pending = func(why string) lifecycle.Sighting { return lifecycle.Sighting{State: lifecycle.Pending, Why: why} }
		queued  = func(why string) lifecycle.Sighting {
			return lifecycle.Sighting{State: lifecycle.Pending, Why: why, Held: true}
		}
		// released is a Job that was suspended before.
		released = &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionFalse, LastTransitionTime: now}}}}
		warns    = func(at time.Duration, message string) corev1.Event {
			return corev1.Event{Type: corev1.EventTypeWarning, Reason: "FailedCreate", Message: message, LastTimestamp: metav1.NewTime(now.Add(at))}
		}
		placed = func(status corev1.ConditionStatus, reason string) corev1.PodCondition {
			return corev1.PodCondition{Type: corev1.PodScheduled, Status: status, Reason: reason, LastTransitionTime: now}
		}
		changed = func(p *corev1.Pod) { p.Generation, p.CreationTimestamp = 2, now }
		inQueue = func(j batchv1.Job) *batchv1.Job {
			j.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "agents"}
			return &j
		}
	)
	const noPod = "no pod has been created: a quota or an admission policy may refuse it, see the Job's events"
	tests := map[string]struct {
		job  *batchv1.Job
		pods []corev1.Pod
		told []corev1.Event
		want lifecycle.Sighting
	}{
		"a process runs": {job: job, pods: running, want: lifecycle.Sighting{State: lifecycle.Working}},
		"a process runs and its Job is complete by rumour": {job: conditions(batchv1.JobComplete, corev1.ConditionTrue), pods: running, want: lifecycle.Sighting{State: lifecycle.Working}},
		"a process runs and its pod is to stop":            {job: job, pods: stopping, want: lifecycle.Sighting{State: lifecycle.Stopping}},
		"a process runs and its Job is going":              {job: going, pods: running, want: lifecycle.Sighting{State: lifecycle.Stopping}},
		"a process runs and its Job is gone":               {job: gone, pods: running, want: lifecycle.Sighting{State: lifecycle.Stopping}},
		"only a container of somebody else runs": {
			job: job, want: end(lifecycle.Crashed, "exit code 1"),
			pods: with(leftWith(1, "", ""), func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodRunning
				p.Status.ContainerStatuses = append([]corev1.ContainerStatus{{Name: "proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}, p.Status.ContainerStatuses...)
			}),
		},
		"only a container of somebody else has ended": {
			job: job, want: pending(""),
			pods: pods(func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}}
			}),
		},

		"it left with 0":                         {job: job, pods: leftWith(0, "Completed", ""), want: end(lifecycle.Yielded, "exit code 0")},
		"it left with 0 in a pod that was to go": {job: gone, pods: with(leftWith(0, "Completed", ""), target), want: end(lifecycle.Yielded, "exit code 0")},
		"it crashed":                             {job: job, pods: leftWith(2, "Error", ""), want: end(lifecycle.Crashed, "exit code 2")},
		"it was killed for its memory":           {job: job, pods: leftWith(137, "OOMKilled", ""), want: end(lifecycle.Crashed, "exit code 137, OOMKilled: it used more than the memory of its node. Raise spec.pods.resources.limits.memory of the AgentPolicy")},
		"it was killed":                          {job: job, pods: leftWith(137, "Error", ""), want: end(lifecycle.Crashed, "exit code 137")},
		"it crashed, and of the pod before it nobody saw the end": {
			job: job, pods: append(pods(failed("NodeLost", "the node is lost")), leftWith(2, "Error", "")...), want: unseen(lifecycle.Crashed, "exit code 2"),
		},
		"its pod met its deadline before it had started": {
			job: job, pods: []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}}},
			want: lifecycle.Sighting{State: lifecycle.Ended, End: lifecycle.AttemptEnd{Class: lifecycle.Crashed, Message: "its pod met its deadline before it had started"}},
		},
		"it was killed by the deadline of its pod": {job: job, pods: with(leftWith(137, "Error", ""), failed("DeadlineExceeded", "too long")), want: end(lifecycle.Crashed, "exit code 137, DeadlineExceeded")},
		"its last words are long":                  {job: job, pods: leftWith(1, "", strings.Repeat("é", 1000)), want: end(lifecycle.Crashed, "exit code 1, "+strings.Repeat("é", 505))},
		"it left with a fault": {
			job: job, pods: leftWith(75, "Error", `{"fault":"LedgerUnavailable","message":"refused","notBeforeSeconds":7}`),
			want: lifecycle.Sighting{State: lifecycle.Ended, Pause: 7 * time.Second, End: lifecycle.AttemptEnd{
				Class: lifecycle.Faulted, Code: contract.FaultLedger, Message: "refused", Terminated: true,
			}},
		},
		"it left with a fault that asks for the past, and a long message": {
			job: job, pods: leftWith(75, "", `{"fault":"Stopped","message":"`+strings.Repeat("x", 2000)+`","notBeforeSeconds":-7}`),
			want: lifecycle.Sighting{State: lifecycle.Ended, End: lifecycle.AttemptEnd{
				Class: lifecycle.Faulted, Code: contract.FaultStopped, Message: strings.Repeat("x", contract.MaxMessage), Terminated: true,
			}},
		},
		"it left with a fault of a pod that was to go": {
			job: job, pods: with(leftWith(75, "", `{"fault":"Stopped"}`), target),
			want: lifecycle.Sighting{State: lifecycle.Ended, End: lifecycle.AttemptEnd{Class: lifecycle.Faulted, Code: contract.FaultStopped, Terminated: true}},
		},
		"it left with 75 and no word":                {job: job, pods: leftWith(75, "", ""), want: end(lifecycle.Crashed, "exit code 75 without a fault")},
		"it left with 75 and a log":                  {job: job, pods: leftWith(75, "", `{"level":"INFO"}`), want: end(lifecycle.Crashed, "exit code 75 without a fault")},
		"it left with 75 and half a fault":           {job: job, pods: leftWith(75, "", `{"fault":"Defer`), want: end(lifecycle.Crashed, "exit code 75 without a fault")},
		"it was taken away":                          {job: job, pods: with(leftWith(143, "Error", ""), target), want: end(lifecycle.Disrupted, "preempted by a better one")},
		"it was not taken away after all":            {job: job, pods: with(leftWith(1, "", ""), condition(corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse})), want: end(lifecycle.Crashed, "exit code 1")},
		"it was evicted":                             {job: job, pods: with(leftWith(137, "", ""), failed("Evicted", "low on memory")), want: end(lifecycle.Disrupted, "Evicted low on memory")},
		"it was evicted before it started":           {job: job, pods: pods(failed("Evicted", "low on disk")), want: unseen(lifecycle.Disrupted, "Evicted low on disk")},
		"its node shut down":                         {job: job, pods: with(leftWith(137, "", ""), failed("Shutdown", "")), want: end(lifecycle.Disrupted, "Shutdown")},
		"its node is lost and nobody saw it end":     {job: job, pods: with(pods(failed("NodeLost", "")), target), want: unseen(lifecycle.Disrupted, "preempted by a better one")},
		"its pod failed without a word":              {job: job, pods: pods(failed("", "")), want: unseen(lifecycle.Disrupted, "its pod was taken away")},
		"its Job has failed and its pod ended":       {job: conditions(batchv1.JobFailed, corev1.ConditionTrue), pods: leftWith(1, "", ""), want: end(lifecycle.Crashed, "exit code 1")},
		"of two pods one has ended and one is alive": {job: job, pods: append(leftWith(1, "", ""), running...), want: lifecycle.Sighting{State: lifecycle.Working}},
		"of two pods one has ended and one waits":    {job: job, pods: append(leftWith(1, "", ""), waiting("ContainerCreating", "")...), want: unseen(lifecycle.Crashed, "exit code 1")}, // its kubelet may be slow to tell
		"of two pods that have ended the last counts": {
			job: job, pods: append(leftWith(1, "", ""), leftWith(0, "", "")...), want: end(lifecycle.Yielded, "exit code 0"),
		},

		"its Job is gone and nothing is left":       {job: gone, want: unseen(lifecycle.Lost, "its Job was deleted")},
		"its Job is going and no pod was made":      {job: going, want: unseen(lifecycle.Lost, "its Job was deleted")},
		"its Job is gone and its pod never started": {job: gone, pods: waiting("ContainerCreating", ""), want: unseen(lifecycle.Lost, "its Job was deleted")},
		"its Job has failed and its pod is gone":    {job: conditions(batchv1.JobFailed, corev1.ConditionTrue), want: unseen(lifecycle.Lost, "its Job has ended and its pod is gone: BackoffLimitExceeded too often")},
		"its Job is complete and its pod is gone":   {job: conditions(batchv1.JobComplete, corev1.ConditionTrue), want: unseen(lifecycle.Lost, "its Job has ended and its pod is gone: BackoffLimitExceeded too often")},
		"its Job has not failed":                    {job: conditions(batchv1.JobFailed, corev1.ConditionFalse), want: pending(noPod)},
		"no pod was made":                           {job: job, want: pending(noPod)},
		"its Job is suspended":                      {job: suspended, want: queued("its Job is suspended, as Kueue does with Jobs that wait in its queue")},
		"its Job is suspended in a queue that may not exist": {job: inQueue(*suspended), want: queued(`its Job is suspended, as Kueue does with Jobs that wait in its queue, here "agents". ` +
			"If there is no such queue, correct the label kueue.x-k8s.io/queue-name where it was set and delete the Job: another is made with what it says then")},
		"its Job was suspended and is let go": {job: released, want: lifecycle.Sighting{State: lifecycle.Pending, Why: noPod, Released: now.Time}},
		"its Job is let go and its controller has not said so": {
			job:  &batchv1.Job{Spec: batchv1.JobSpec{Suspend: ptr(false)}, Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, LastTransitionTime: now}}}},
			want: queued("its Job is suspended, as Kueue does with Jobs that wait in its queue"),
		},
		"its Job is suspended again and its process hands over": {
			job: suspended, pods: leftWith(75, "", `{"fault":"Stopped"}`),
			want: lifecycle.Sighting{State: lifecycle.Ended, Suspended: true, End: lifecycle.AttemptEnd{Class: lifecycle.Faulted, Code: contract.FaultStopped, Terminated: true}},
		},
		"its Job is suspended again and its process is killed": {
			job: suspended, pods: leftWith(137, "", ""),
			want: lifecycle.Sighting{State: lifecycle.Ended, Suspended: true, End: lifecycle.AttemptEnd{Class: lifecycle.Disrupted, Message: "its Job was suspended while it worked: exit code 137", Terminated: true}},
		},
		"its Job is suspended again before its pod had started": {job: suspended, pods: waiting("ContainerCreating", ""), want: queued("its Job is suspended, as Kueue does with Jobs that wait in its queue")},
		"its pod waits behind a gate":                           {job: job, pods: pods(condition(placed(corev1.ConditionFalse, "SchedulingGated"))), want: queued("SchedulingGated")},
		"one of its gates is open":                              {job: job, pods: pods(changed, condition(placed(corev1.ConditionFalse, "SchedulingGated"))), want: queued("SchedulingGated")},
		"the gate is open and no node is found": {
			job: job, pods: pods(changed, condition(placed(corev1.ConditionFalse, "Unschedulable"))),
			want: lifecycle.Sighting{State: lifecycle.Pending, Why: "Unschedulable", Released: now.Add(24 * time.Hour)},
		},
		"the gate is open and a node is found": {
			job: job, pods: pods(changed, condition(placed(corev1.ConditionTrue, ""))), want: lifecycle.Sighting{State: lifecycle.Pending, Released: now.Time},
		},
		"no pod was made and events say why":                     {job: job, told: []corev1.Event{warns(2, "exceeded quota: b"), warns(1, "exceeded quota: a")}, want: pending("FailedCreate: exceeded quota: b")},
		"no pod was made and nothing is amiss":                   {job: job, told: []corev1.Event{{Type: corev1.EventTypeNormal, Reason: "x"}}, want: pending(noPod)},
		"its pod is silent and events say why":                   {job: job, pods: pods(), told: []corev1.Event{{Type: corev1.EventTypeWarning, Reason: "FailedMount", Message: "no such Secret."}}, want: pending("FailedMount: no such Secret")},
		"its pod has a node, and an event says that it had none": {job: job, pods: pods(condition(placed(corev1.ConditionTrue, ""))), told: []corev1.Event{warns(-time.Second, "0/1 nodes")}, want: pending("")},
		"its pod has a node, and an event says what came then":   {job: job, pods: pods(condition(placed(corev1.ConditionTrue, ""))), told: []corev1.Event{warns(0, "no such volume"), warns(-time.Second, "0/1 nodes")}, want: pending("FailedCreate: no such volume")},
		"its status says more than its events":                   {job: job, pods: waiting("CreateContainerConfigError", "x"), told: []corev1.Event{warns(1, "y")}, want: pending("CreateContainerConfigError: x")},
		"a container before its own has to wait": {job: job, want: pending("image side:1 cannot be pulled, see the events of pod segment-pod"), pods: pods(func(p *corev1.Pod) {
			p.Name = "segment-pod"
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "side", Image: "side:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no"}}}}
			p.Status.ContainerStatuses = segment(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}})
		})},
		"its pod is new":                                 {job: job, pods: pods(), want: pending("")},
		"its pod has no node yet":                        {job: job, pods: pods(condition(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes"})), want: pending("Unschedulable: 0/1 nodes")},
		"its pod has a node":                             {job: job, pods: pods(condition(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})), want: pending("")},
		"its container is being created":                 {job: job, pods: waiting("ContainerCreating", ""), want: pending("")},
		"its image is not there":                         {job: job, pods: waiting("ErrImagePull", "no such image"), want: pending("image  cannot be pulled, see the events of pod ")},
		"its image is not there, and is waited for":      {job: job, pods: waiting("ImagePullBackOff", "Back-off pulling"), want: pending("image  cannot be pulled, see the events of pod ")},
		"its image has no name":                          {job: job, pods: waiting("InvalidImageName", "a b"), want: pending("image  cannot be pulled: a b")},
		"its container waits without a message":          {job: job, pods: waiting("CreateContainerConfigError", ""), want: pending("CreateContainerConfigError")},
		"its container waits with a message without end": {job: job, pods: waiting("E", strings.Repeat("x", 1000)), want: pending("E: " + strings.Repeat("x", 509))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range tc.pods {
				tc.pods[i].UID = types.UID(fmt.Sprint("pod ", i))
				if tc.want.End.Terminated { // all of them were seen to end
					tc.want.End.Pods = append(tc.want.End.Pods, tc.pods[i].UID)
				}
			}
			if diff := cmp.Diff(tc.want, Read(tc.job, tc.pods, tc.told)); diff != "" {
				t.Errorf("Read() (-want +got):\n%s", diff)
			}
		})
	}
}

// pods is one pod, changed.
func pods(change ...func(*corev1.Pod)) []corev1.Pod {
	p := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
	for _, c := range change {
		c(&p)
	}
	return []corev1.Pod{p}
}

func with(ps []corev1.Pod, change func(*corev1.Pod)) []corev1.Pod {
	p := *ps[0].DeepCopy()
	change(&p)
	return []corev1.Pod{p}
}

func segment(s corev1.ContainerState) []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{Name: contract.SegmentContainer, State: s}}
}

// leftWith is a pod whose segment has ended.
func leftWith(code int32, reason, message string) []corev1.Pod {
	return pods(func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
		if code != 0 {
			p.Status.Phase = corev1.PodFailed
		}
		p.Status.ContainerStatuses = segment(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}})
	})
}
