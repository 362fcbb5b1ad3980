package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/serve"
)

// stands waits until the run says that it goes on for a reason, with words in its message.
func (s *story) stands(name, reason string, words ...string) {
	s.Helper()
	var c metav1.Condition
	s.eventually(name+" says "+reason+" "+strings.Join(words, ", "), func() bool {
		got := meta.FindStatusCondition(s.get(name).Status.Conditions, v1alpha1.ConditionSucceeded)
		if got == nil || got.Reason != reason {
			return false
		}
		c = *got
		for _, w := range words {
			if !strings.Contains(c.Message, w) {
				return false
			}
		}
		return true
	})
	s.Logf("%s: %s: %s", name, c.Reason, c.Message)
}

// age moves the beginning of the newest attempt of a run into the past: the clock of a run is that of Postgres.
func (s *story) age(r *v1alpha1.AgentRun, by time.Duration) {
	s.Helper()
	d, err := shared.Describe()
	if err != nil {
		s.Fatal(err)
	}
	config, err := pgx.ParseConfig(d.Postgres.SuperuserDSN)
	if err != nil {
		s.Fatal(err)
	}
	config.Database = "ekiden"
	conn, err := pgx.ConnectConfig(s.Context(), config)
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // nothing is left to lose
	tag, err := conn.Exec(s.Context(), `UPDATE ekiden.attempts SET begun_at = begun_at - make_interval(secs => $2) WHERE run_uid::text = $1 AND ended_at IS NULL`, string(r.UID), by.Seconds())
	if err != nil || tag.RowsAffected() != 1 {
		s.Fatalf("%d attempts aged, %v", tag.RowsAffected(), err)
	}
}

// TestPodsAreMadeAsThePolicySays looks at the Jobs of a run and of a discovery, and at what the API server made of them.
func TestPodsAreMadeAsThePolicySays(t *testing.T) {
	t.Parallel()
	s := tell(t, gated("go", answer("x")))
	s.create(
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "agents", Namespace: s.namespace}},
		given.Policy(s.namespace, func(p *v1alpha1.AgentPolicy) {
			p.Spec.Pods = v1alpha1.PodSettings{
				ServiceAccountName: "agents",
				NodeSelector:       map[string]v1alpha1.PodLabelValue{"kubernetes.io/os": "linux"},
				Tolerations:        []v1alpha1.PodToleration{{Key: "dedicated", Operator: v1alpha1.TolerationExists}},
				Resources:          v1alpha1.PodResources{Limits: map[string]resource.Quantity{"memory": resource.MustParse("300Mi")}},
				Labels:             map[string]v1alpha1.PodLabelValue{"example.com/team": "support"},
				Annotations:        map[string]v1alpha1.PodAnnotationValue{"example.com/owner": "Dana & co."},
				Env:                []v1alpha1.PodEnv{{Name: "GREETING", Value: "$(POD_NAME) costs $$5"}},
			}
		}),
		given.MCPServer(s.namespace, "http://127.0.0.1:1/mcp"),
	)
	s.setUp()
	r := s.start("dressed")
	s.requests(1)
	var pods []corev1.Pod
	s.eventually("the discovery has a pod as well", func() bool {
		pods = s.pods()
		return len(pods) > 1
	})
	for _, p := range pods {
		c := p.Spec.Containers[0]
		if p.Spec.ServiceAccountName != "agents" || p.Spec.NodeSelector["kubernetes.io/os"] != "linux" || c.Resources.Limits.Memory().String() != "300Mi" || c.Resources.Requests.Memory().String() != "48Mi" {
			t.Errorf("%s: %+v", p.Name, p.Spec)
		}
		if p.Labels["example.com/team"] != "support" || p.Annotations["example.com/owner"] != "Dana & co." {
			t.Errorf("%s: labels %v, annotations %v", p.Name, p.Labels, p.Annotations)
		}
		for _, v := range p.Spec.Volumes {
			if v.Projected != nil {
				t.Errorf("%s: a token is mounted: %+v", p.Name, v)
			}
		}
	}
	for _, j := range s.jobs() {
		if j.Labels["example.com/team"] != "support" {
			t.Errorf("Job %s: labels %v", j.Name, j.Labels)
		}
	}
	for _, pid := range processes(t, "segment", "--run="+string(r.UID)) {
		environ, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "environ"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(environ), "GREETING=$(POD_NAME) costs $$5\x00") {
			t.Errorf("environment %q", environ)
		}
	}
	s.model.Open("go")
	s.want(s.finished("dressed"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
}

// TestPodsThatCannotStart shows for each way in which a cluster can keep a pod from starting what the run says meanwhile, and that it
// ends saying the same.
func TestPodsThatCannotStart(t *testing.T) {
	t.Parallel()
	memory := func(request, limit string) v1alpha1.PodSettings {
		var s v1alpha1.PodSettings
		s.Resources.Requests, s.Resources.Limits = map[string]resource.Quantity{"memory": resource.MustParse(request)}, map[string]resource.Quantity{"memory": resource.MustParse(limit)}
		return s
	}
	named := metav1.ObjectMeta{Name: "none"}
	for name, tc := range map[string]struct {
		pods   v1alpha1.PodSettings
		object client.Object
		words  []string
	}{
		"a quota refuses it": {
			object: &corev1.ResourceQuota{ObjectMeta: named, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}},
			words:  []string{"FailedCreate", "exceeded quota: none"},
		},
		"a limit range refuses it": {
			object: &corev1.LimitRange{ObjectMeta: named, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}}}},
			words:  []string{"FailedCreate", "maximum memory usage per Container is 64Mi"},
		},
		"its priority class is missing":            {pods: v1alpha1.PodSettings{PriorityClassName: "none"}, words: []string{"FailedCreate", "no PriorityClass with name none"}},
		"its runtime class is missing":             {pods: v1alpha1.PodSettings{RuntimeClassName: "none"}, words: []string{"FailedCreate", `RuntimeClass "none" not found`}},
		"its service account is missing":           {pods: v1alpha1.PodSettings{ServiceAccountName: "none"}, words: []string{"FailedCreate", `serviceaccount "none" not found`}},
		"no node is as it wants":                   {pods: v1alpha1.PodSettings{NodeSelector: map[string]v1alpha1.PodLabelValue{"example.com/none": "x"}}, words: []string{"Unschedulable"}},
		"it asks for more memory than no node has": {pods: memory("999Ti", "999Ti"), words: []string{"Unschedulable", "Insufficient memory"}},
		"it asks for more memory than it may use":  {pods: memory("512Mi", "256Mi"), words: []string{"must be less than or equal to memory limit of 256Mi"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tell(t, answer("x")).setUp()
			tc.pods.Labels = map[string]v1alpha1.PodLabelValue{"example.com/story": "stuck"}
			s.create(given.Policy(s.namespace, func(p *v1alpha1.AgentPolicy) { p.Spec.Pods = tc.pods }))
			if tc.object != nil {
				tc.object.SetNamespace(s.namespace)
				s.create(tc.object)
			}
			r := s.start("stuck")
			s.stands("stuck", v1alpha1.ReasonStarting, tc.words...)
			s.age(r, lifecycle.StartWithin)
			r = s.finished("stuck")
			s.want(r, v1alpha1.RunFailed, v1alpha1.ReasonPodNotStarted)
			for _, w := range append(tc.words, "did not start within 300 seconds") {
				if !strings.Contains(r.Status.Error.Message, w) {
					t.Errorf("the end does not say %q: %s", w, r.Status.Error.Message)
				}
			}
			s.wantRequests(0)
		})
	}
}

// TestAPolicyThatIsCorrectedReachesThePod of a run that waits already, where the API server refused its Job.
func TestAPolicyThatIsCorrectedReachesThePod(t *testing.T) {
	t.Parallel()
	s := tell(t, answer("x")).setUp()
	policy := given.Policy(s.namespace, func(p *v1alpha1.AgentPolicy) {
		p.Spec.Pods.Resources.Requests = map[string]resource.Quantity{"memory": resource.MustParse("512Mi")}
	})
	s.create(policy)
	s.start("corrected")
	s.stands("corrected", v1alpha1.ReasonStarting, "must be less than or equal to memory limit")
	s.eventually("the policy is corrected", func() bool {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return false
		}
		policy.Spec.Pods.Resources.Limits = map[string]resource.Quantity{"memory": resource.MustParse("1Gi")}
		return api.Update(t.Context(), policy) == nil
	})
	s.want(s.finished("corrected"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
}

// suspend does to the newest Job what Kueue does.
func (s *story) suspend(suspended bool) {
	s.Helper()
	s.eventually("the Job is suspended or let go", func() bool {
		for _, j := range s.jobs() {
			if len(j.Status.Conditions) > 0 && j.Status.Conditions[len(j.Status.Conditions)-1].Type != batchv1.JobSuspended {
				continue
			}
			before := j.DeepCopy()
			j.Spec.Suspend = &suspended
			return api.Patch(s.Context(), &j, client.MergeFrom(before)) == nil
		}
		return false
	})
}

// TestARunInAQueue carries the label on, waits without a clock, and takes being sent back into the queue for no crash.
func TestARunInAQueue(t *testing.T) {
	t.Parallel()
	s := tell(t, gated("go", answer("x")), answer("x")).setUp(given.Tries(1))
	// Nothing can start before the Job is suspended: Kueue does that when it is created.
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none", Namespace: s.namespace},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
	s.create(quota)
	r := s.start("queued", func(r *v1alpha1.AgentRun) { r.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "agents"} })
	s.eventually("there is a Job", func() bool { return len(s.jobs()) == 1 })
	if j := s.jobs()[0]; j.Labels["kueue.x-k8s.io/queue-name"] != "agents" || j.Spec.Template.Labels["kueue.x-k8s.io/queue-name"] != "" {
		t.Errorf("labels of the Job %v, of its pods %v", j.Labels, j.Spec.Template.Labels)
	}
	s.suspend(true)
	if err := api.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	s.stands("queued", v1alpha1.ReasonPodQueued, "its Job is suspended")
	s.age(r, 24*time.Hour)
	s.suspend(false)
	s.requests(1)
	s.stands("queued", v1alpha1.ReasonRunning)

	// It is sent back while it works: its process hands over, and the next attempt is another Job in the same queue.
	first := s.jobs()[0].Name
	s.suspend(true)
	s.eventually("another Job takes the place of the first", func() bool {
		jobs := s.jobs()
		return len(jobs) == 1 && jobs[0].Name != first && jobs[0].Labels["kueue.x-k8s.io/queue-name"] == "agents"
	})
	s.model.Open("go")
	s.want(s.finished("queued"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
}

// secured serves with a certificate of an authority that nobody knows, and is that authority's certificate.
func secured(t *testing.T, handler http.Handler) (url, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.ParseIP(serve.Host)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(serve.Host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	server.Listener = listener
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestAModelBehindAnAuthorityOfItsOwn is reached once its certificate is there, and not before.
func TestAModelBehindAnAuthorityOfItsOwn(t *testing.T) {
	t.Parallel()
	s := tell(t, answer("x"))
	url, authority := secured(t, s.model)
	s.create(s.key(), given.Definition(s.namespace, given.Tries(1)), given.Endpoint(s.namespace, url+"/v1", func(e *v1alpha1.ModelEndpoint) {
		e.Spec.TLS.CABundle.ConfigMap = v1alpha1.KeyReference{Name: "corp-ca", Key: "ca.crt"}
	}))
	s.start("untrusting")
	r := s.finished("untrusting")
	s.want(r, v1alpha1.RunFailed, v1alpha1.ReasonCABundleMissing)
	if !strings.Contains(r.Status.Error.Message, `ConfigMap "corp-ca" has no key "ca.crt"`) {
		t.Errorf("it says %s", r.Status.Error.Message)
	}
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "corp-ca", Namespace: s.namespace}, Data: map[string]string{"ca.crt": authority}})
	s.start("trusting")
	s.want(s.finished("trusting"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	s.wantRequests(1)
}
