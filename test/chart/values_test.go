package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// The paths that several rows change.
const (
	manager   = "Deployment/ekiden-manager spec.template.spec."
	container = manager + "containers.0."
	uninstall = "Job/ekiden-uninstall spec.template.spec."
	check     = "Pod/ekiden-check spec."

	ofCheck     = "NetworkPolicy/ekiden-check spec."
	ofUninstall = "NetworkPolicy/ekiden-uninstall spec."
)

// A row has values and what they change.
type row struct {
	values string
	want   []string
}

// values has a row for each value: what changes in all that is rendered when it is set, and nothing else.
//
//   - Kind/name              the object is new
//   - Kind/name              it is gone
//     Kind/name path = value   the field is new or another
//     Kind/name path gone      it is gone
var values = map[string]row{
	"one manager runs without a budget of disruptions": {"manager: {replicas: 1}", []string{
		"- PodDisruptionBudget/ekiden-manager",
		"Deployment/ekiden-manager spec.replicas = 1",
	}},
	"three managers run": {"manager: {replicas: 3}", []string{"Deployment/ekiden-manager spec.replicas = 3"}},
	"the manager's image comes from elsewhere": {"manager: {image: {repository: registry.example/manager}}", []string{
		container + `image = "registry.example/manager:dev"`,
		uninstall + `containers.0.image = "registry.example/manager:dev"`,
		check + `containers.0.image = "registry.example/manager:dev"`,
	}},
	"the manager's image has a tag": {"manager: {image: {tag: v1}}", []string{
		container + `image = "ekiden/manager:v1"`,
		uninstall + `containers.0.image = "ekiden/manager:v1"`,
		check + `containers.0.image = "ekiden/manager:v1"`,
	}},
	"a digest wins over a tag": {"manager: {image: {tag: v1, digest: " + digest + "}}", []string{
		container + `image = "ekiden/manager@` + digest + `"`,
		uninstall + `containers.0.image = "ekiden/manager@` + digest + `"`,
		check + `containers.0.image = "ekiden/manager@` + digest + `"`,
	}},
	"the manager's image is always pulled": {"manager: {image: {pullPolicy: Always}}", []string{
		container + `imagePullPolicy = "Always"`,
		uninstall + `containers.0.imagePullPolicy = "Always"`,
		check + `containers.0.imagePullPolicy = "Always"`,
	}},
	"the manager's image is pulled with a login": {"manager: {imagePullSecrets: [{name: registry}]}", []string{
		manager + `imagePullSecrets.0.name = "registry"`,
		uninstall + `imagePullSecrets.0.name = "registry"`,
		check + `imagePullSecrets.0.name = "registry"`,
	}},
	"the manager gets more memory": {"manager: {resources: {limits: {memory: 1Gi}}}", []string{
		container + `resources.limits.memory = "1Gi"`,
		uninstall + `containers.0.resources.limits.memory = "1Gi"`,
		check + `containers.0.resources.limits.memory = "1Gi"`,
	}},
	"a quota wants limits of CPU": {"manager: {resources: {limits: {cpu: 1}}}", []string{
		container + `resources.limits.cpu = 1`,
		uninstall + `containers.0.resources.limits.cpu = 1`,
		check + `containers.0.resources.limits.cpu = 1`,
	}},
	"the manager runs on certain nodes": {"manager: {nodeSelector: {pool: system}}", []string{
		manager + `nodeSelector.pool = "system"`,
		uninstall + `nodeSelector.pool = "system"`,
		check + `nodeSelector.pool = "system"`,
	}},
	"the manager tolerates a taint": {"manager: {tolerations: [{operator: Exists}]}", []string{
		manager + `tolerations.0.operator = "Exists"`,
		uninstall + `tolerations.0.operator = "Exists"`,
		check + `tolerations.0.operator = "Exists"`,
	}},
	"the manager has an affinity": {"manager: {affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}}", []string{
		manager + "affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution = []",
	}},
	"the manager has a priority": {"manager: {priorityClassName: system-cluster-critical}", []string{
		manager + `priorityClassName = "system-cluster-critical"`,
		uninstall + `priorityClassName = "system-cluster-critical"`,
		check + `priorityClassName = "system-cluster-critical"`,
	}},
	"the manager's pods get a label": {"manager: {podLabels: {team: platform}}", []string{
		`Deployment/ekiden-manager spec.template.metadata.labels.team = "platform"`,
	}},
	"the manager's pods get an annotation": {"manager: {podAnnotations: {example.com/scrape: \"true\"}}", []string{
		`Deployment/ekiden-manager spec.template.metadata.annotations.example.com/scrape = "true"`,
	}},
	"the manager gets a variable": {"manager: {extraEnv: [{name: GOMEMLIMIT, value: 400MiB}]}", []string{
		container + `env.3.name = "GOMEMLIMIT"`,
		container + `env.3.value = "400MiB"`,
	}},

	"the segments' image comes from elsewhere": {"segment: {image: {repository: registry.example/segment}}", []string{
		container + `args.4 = "--segment-image=registry.example/segment:dev"`,
	}},
	"the segments' image has a tag":    {"segment: {image: {tag: v1}}", []string{container + `args.4 = "--segment-image=ekiden/segment:v1"`}},
	"the segments' image has a digest": {"segment: {image: {digest: " + digest + "}}", []string{container + `args.4 = "--segment-image=ekiden/segment@` + digest + `"`}},
	"segments reach Postgres elsewhere": {"segment: {postgresAddress: pooler.db.svc:6432}", []string{
		container + `args.5 = "--segment-postgres-address=pooler.db.svc:6432"`,
	}},
	"pods of segments have a service account": podDefault("serviceAccountName: runner"),
	"pods of segments are pulled with a login": podDefault(`imagePullSecrets:
- name: registry`),
	"pods of segments run on certain nodes": podDefault(`nodeSelector:
  pool: agents`),
	"pods of segments tolerate a taint": podDefault(`tolerations:
- effect: NoExecute
  key: dedicated
  tolerationSeconds: 300
  value: agents`),
	"pods of segments get more memory": podDefault(`resources:
  limits:
    cpu: 2
    memory: 1Gi`),
	"pods of segments run in a sandbox":    podDefault("runtimeClassName: gvisor"),
	"pods of segments have a priority":     podDefault("priorityClassName: low"),
	"pods of segments get a label":         podDefault("labels:\n  team: support"),
	"pods of segments get an annotation":   podDefault("annotations:\n  example.com/cost-center: \"4711\""),
	"pods of segments get a variable":      podDefault("env:\n- name: TZ\n  value: Europe/Berlin"),
	"of two defaults both are in the file": podDefault("labels:\n  team: support\nserviceAccountName: runner"),

	"the DSN is in another Secret": {"postgres: {dsnSecret: {name: db}}", []string{
		manager + `volumes.0.secret.secretName = "db"`,
		check + `volumes.0.secret.secretName = "db"`,
	}},
	"the DSN is under another key": {"postgres: {dsnSecret: {key: uri}}", []string{
		manager + `volumes.0.secret.items.0.key = "uri"`,
		check + `volumes.0.secret.items.0.key = "uri"`,
	}},
	"a Postgres for trials is installed": {"postgres: {trial: {enabled: true}}", []string{
		"+ ConfigMap/ekiden-trial-postgres", "+ Secret/ekiden-trial-postgres", "+ Service/ekiden-trial-postgres", "+ StatefulSet/ekiden-trial-postgres",
		manager + `volumes.0.secret.secretName = "ekiden-trial-postgres"`,
		check + `volumes.0.secret.secretName = "ekiden-trial-postgres"`,
	}},

	"the kinds are installed by somebody else": {"crds: {install: false}", []string{
		"- CustomResourceDefinition/agentdefinitions.ekiden.dev", "- CustomResourceDefinition/agentpolicies.ekiden.dev",
		"- CustomResourceDefinition/agentruns.ekiden.dev", "- CustomResourceDefinition/approvalrequests.ekiden.dev",
		"- CustomResourceDefinition/definitionrevisions.ekiden.dev", "- CustomResourceDefinition/modelendpoints.ekiden.dev",
		"- CustomResourceDefinition/toolservers.ekiden.dev",
	}},
	"the kinds and their guards go with the release": {"crds: {keep: false}", []string{
		"MutatingAdmissionPolicy/ekiden-approval-decision metadata.annotations.helm.sh/resource-policy gone",
		"MutatingAdmissionPolicy/ekiden-run-principal metadata.annotations.helm.sh/resource-policy gone",
		"MutatingAdmissionPolicyBinding/ekiden-approval-decision metadata.annotations.helm.sh/resource-policy gone",
		"MutatingAdmissionPolicyBinding/ekiden-run-principal metadata.annotations.helm.sh/resource-policy gone",
		"ValidatingAdmissionPolicy/ekiden-approval-decision metadata.annotations.helm.sh/resource-policy gone",
		"ValidatingAdmissionPolicy/ekiden-run-principal metadata.annotations.helm.sh/resource-policy gone",
		"ValidatingAdmissionPolicyBinding/ekiden-approval-decision metadata.annotations.helm.sh/resource-policy gone",
		"ValidatingAdmissionPolicyBinding/ekiden-run-principal metadata.annotations.helm.sh/resource-policy gone",
		"CustomResourceDefinition/agentdefinitions.ekiden.dev metadata.annotations.helm.sh/resource-policy gone",
		"CustomResourceDefinition/agentpolicies.ekiden.dev metadata.annotations.helm.sh/resource-policy gone",
		"CustomResourceDefinition/agentruns.ekiden.dev metadata.annotations.helm.sh/resource-policy gone",
		"CustomResourceDefinition/approvalrequests.ekiden.dev metadata.annotations.helm.sh/resource-policy gone",
		"CustomResourceDefinition/definitionrevisions.ekiden.dev metadata.annotations.helm.sh/resource-policy gone",
		"CustomResourceDefinition/modelendpoints.ekiden.dev metadata.annotations.helm.sh/resource-policy gone",
		"CustomResourceDefinition/toolservers.ekiden.dev metadata.annotations.helm.sh/resource-policy gone",
	}},

	"the manager's traffic is restricted": {"networkPolicy: {enabled: true}", []string{
		"+ NetworkPolicy/ekiden-check", "+ NetworkPolicy/ekiden-manager", "+ NetworkPolicy/ekiden-uninstall",
	}},
	"Prometheus is told of the metrics": {"metrics: {serviceMonitor: {enabled: true}}", []string{"+ ServiceMonitor/ekiden-manager"}},
	"sessions are kept for less":        {"keep: {sessions: 7d}", []string{container + `args.5 = "--keep-sessions=7d"`}},
	"runs are kept for ever":            {`keep: {runs: "0"}`, []string{container + `args.5 = "--keep-runs=0"`}},
	"versions of policies are kept":     {"keep: {policies: 9600h}", []string{container + `args.5 = "--keep-policies=9600h"`}},
	"the manager says more":             {"log: {level: 2}", []string{container + `args.5 = "--v=2"`}},
	"helm uninstall stops nobody": {"uninstall: {releaseFinalizers: false}", []string{
		"- ClusterRole/ekiden-uninstall", "- ClusterRoleBinding/ekiden-uninstall", "- Job/ekiden-uninstall", "- Role/ekiden-uninstall",
		"- RoleBinding/ekiden-uninstall", "- ServiceAccount/ekiden-uninstall",
	}},
}

// podDefault is the row of a default of pods: a file in the form in which it was written, and what gives it to the manager.
func podDefault(file string) row {
	return row{"segment:\n  pods:\n    " + strings.ReplaceAll(file, "\n", "\n    "), []string{
		"+ ConfigMap/ekiden-pod-defaults",
		`Deployment/ekiden-manager spec.template.metadata.annotations.checksum/pod-defaults = "a checksum"`,
		container + `args.5 = "--pod-defaults-file=/etc/ekiden/pods.yaml"`,
		container + `volumeMounts.1.mountPath = "/etc/ekiden"`,
		container + `volumeMounts.1.name = "pod-defaults"`,
		container + "volumeMounts.1.readOnly = true",
		manager + `volumes.1.configMap.name = "ekiden-pod-defaults"`,
		manager + `volumes.1.name = "pod-defaults"`,
	}}
}

func TestAValueChangesWhatItSays(t *testing.T) {
	t.Parallel()
	before := flat(t, rendered(t, ""))
	for name, c := range values {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := rendered(t, c.values)
			want := slices.Sorted(slices.Values(c.want))
			if diff := cmp.Diff(want, changes(before, flat(t, after))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if pods := after["ConfigMap/ekiden-pod-defaults"]; pods != nil {
				given, got := lookup(t, c.values, "segment", "pods"), pods.Object["data"].(map[string]any)["pods.yaml"].(string)
				if diff := cmp.Diff(given, lookup(t, got)); diff != "" {
					t.Errorf("the file of defaults is not what was given (-given +file):\n%s", diff)
				}
			}
		})
	}
}

// TestAValueOfAPartChangesWhatItSays: some values count only where others switch a part on.
func TestAValueOfAPartChangesWhatItSays(t *testing.T) {
	t.Parallel()
	const (
		trial    = "StatefulSet/ekiden-trial-postgres spec."
		policy   = "NetworkPolicy/ekiden-manager spec."
		password = "abcdefghijklmnop"
	)
	for name, c := range inPart(trial, policy, password) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := flat(t, rendered(t, c.part)), flat(t, rendered(t, c.part+"\n"+c.values))
			want := slices.Sorted(slices.Values(c.want))
			if diff := cmp.Diff(want, changes(before, after)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A partRow has values below a part, or beside it, and what they change.
type partRow struct {
	part, values string
	want         []string
}

// inPart has rows for values that count only where others are set: what changes once the part is there.
func inPart(trial, policy, password string) map[string]partRow {
	const on = "postgres:\n  trial:\n    enabled: true\n    password: ponmlkjihgfedcba"
	return map[string]partRow{
		"the trial's image comes from elsewhere": {on, "    image: {repository: registry.example/postgres}", []string{trial + `template.spec.containers.0.image = "registry.example/postgres:17"`}},
		"the trial's image has a tag":            {on, `    image: {tag: "16"}`, []string{trial + `template.spec.containers.0.image = "docker.io/library/postgres:16"`}},
		"the trial's image has a digest":         {on, "    image: {digest: " + digest + "}", []string{trial + `template.spec.containers.0.image = "docker.io/library/postgres@` + digest + `"`}},
		"the trial's password is given": {"postgres:\n  trial:\n    enabled: true", "    password: " + password, []string{
			`Secret/ekiden-trial-postgres stringData.dsn = "postgres://ekiden_manager:` + password + `@ekiden-trial-postgres.ekiden-system.svc:5432/ekiden?sslmode=disable"`,
			`Secret/ekiden-trial-postgres stringData.password = "` + password + `"`,
		}},
		"the trial's data goes with the pod": {on, "    storage: {persistent: false}", []string{
			trial + "template.spec.volumes.3.emptyDir = {}",
			trial + `template.spec.volumes.3.name = "data"`,
			trial + "volumeClaimTemplates.0.metadata.name gone",
			trial + "volumeClaimTemplates.0.spec.accessModes.0 gone",
			trial + "volumeClaimTemplates.0.spec.resources.requests.storage gone",
		}},
		"the trial's claim is larger":     {on, "    storage: {size: 5Gi}", []string{trial + `volumeClaimTemplates.0.spec.resources.requests.storage = "5Gi"`}},
		"the trial's claim is of a class": {on, "    storage: {className: fast}", []string{trial + `volumeClaimTemplates.0.spec.storageClassName = "fast"`}},
		"the trial gets more memory":      {on, "    resources: {limits: {memory: 1Gi}}", []string{trial + `template.spec.containers.0.resources.limits.memory = "1Gi"`}},
		"the trial's traffic is restricted": {on, "networkPolicy: {enabled: true}", []string{
			"+ NetworkPolicy/ekiden-check", "+ NetworkPolicy/ekiden-manager", "+ NetworkPolicy/ekiden-trial-postgres", "+ NetworkPolicy/ekiden-uninstall",
		}},

		"the API server has another port": {"networkPolicy:\n  enabled: true", "  apiServerPorts: [8443]", []string{
			policy + "egress.0.ports.2.port = 8443", policy + "egress.0.ports.3.port = 5432",
			policy + "egress.0.ports.4.port gone", policy + "egress.0.ports.4.protocol gone",
			ofCheck + "egress.0.ports.2.port = 8443", ofCheck + "egress.0.ports.3.port = 5432",
			ofCheck + "egress.0.ports.4.port gone", ofCheck + "egress.0.ports.4.protocol gone",
			ofUninstall + "egress.0.ports.2.port = 8443", ofUninstall + "egress.0.ports.3.port gone", ofUninstall + "egress.0.ports.3.protocol gone",
		}},
		"Postgres has another port": {"networkPolicy:\n  enabled: true", "  postgresPorts: [6432]", []string{
			policy + "egress.0.ports.4.port = 6432", ofCheck + "egress.0.ports.4.port = 6432",
		}},
		"nothing runs at the uninstallation": {"networkPolicy:\n  enabled: true", "uninstall: {releaseFinalizers: false}", []string{
			"- NetworkPolicy/ekiden-uninstall",
			"- ClusterRole/ekiden-uninstall", "- ClusterRoleBinding/ekiden-uninstall", "- Job/ekiden-uninstall", "- Role/ekiden-uninstall",
			"- RoleBinding/ekiden-uninstall", "- ServiceAccount/ekiden-uninstall",
		}},
		"only some read metrics": {"networkPolicy:\n  enabled: true", "  metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]", []string{
			policy + `ingress.1.from.0.namespaceSelector.matchLabels.name = "monitoring"`,
		}},
		"Prometheus selects by a label": {"metrics:\n  serviceMonitor:\n    enabled: true", "    labels: {release: prometheus}", []string{
			`ServiceMonitor/ekiden-manager metadata.labels.release = "prometheus"`,
		}},
		"Prometheus asks more often": {"metrics:\n  serviceMonitor:\n    enabled: true", "    interval: 15s", []string{
			`ServiceMonitor/ekiden-manager spec.endpoints.0.interval = "15s"`,
		}},
	}
}

// TestEveryValueHasARow: a value that no row sets may change nothing, or too much.
func TestEveryValueHasARow(t *testing.T) {
	t.Parallel()
	set := map[string]bool{}
	for _, c := range values {
		leaves(lookup(t, c.values), "", set)
	}
	for _, c := range inPart("", "", "x") {
		leaves(lookup(t, c.part+"\n"+c.values), "", set)
	}
	file, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	leaves(lookup(t, string(file)), "", all)
	for path := range all {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(set)), func(s string) bool { return s == path || strings.HasPrefix(s, path+".") || sibling(s, path) }) {
			t.Errorf("no row sets %s", path)
		}
	}
}

// sibling reports whether both paths are amounts of one set of resources, of which one row is enough.
func sibling(a, b string) bool {
	before, _, ok := strings.Cut(a, ".resources.")
	return ok && strings.HasPrefix(b, before+".resources.")
}

func lookup(t *testing.T, text string, path ...string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	for _, key := range path {
		value = value.(map[string]any)[key]
	}
	return value
}

// leaves collects the paths of values that are no maps, or empty ones.
func leaves(value any, path string, found map[string]bool) {
	below, ok := value.(map[string]any)
	if !ok || len(below) == 0 {
		found[path] = true
		return
	}
	for key, v := range below {
		leaves(v, strings.TrimPrefix(path+"."+key, "."), found)
	}
}

// flat is the fields of objects by object and path, as JSON.
func flat(t *testing.T, all objects) map[string]map[string]string {
	t.Helper()
	found := map[string]map[string]string{}
	for name, o := range all {
		fields := map[string]string{}
		flatten(o.Object, "", fields)
		for path := range fields {
			if strings.HasSuffix(path, "checksum/pod-defaults") {
				fields[path] = `"a checksum"`
			}
		}
		found[name] = fields
	}
	return found
}

func flatten(value any, path string, fields map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			flatten(below, path+"."+key, fields)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i, below := range v {
			flatten(below, fmt.Sprintf("%s.%d", path, i), fields)
		}
		if len(v) > 0 {
			return
		}
	}
	text, _ := json.Marshal(value) // it was read from YAML
	fields[strings.TrimPrefix(path, ".")] = string(text)
}

// changes lists what differs.
func changes(before, after map[string]map[string]string) []string {
	var found []string
	for name, fields := range after {
		old, ok := before[name]
		if !ok {
			found = append(found, "+ "+name)
			continue
		}
		for path, value := range fields {
			if old[path] != value {
				found = append(found, name+" "+path+" = "+value)
			}
		}
		for path := range old {
			if _, ok := fields[path]; !ok {
				found = append(found, name+" "+path+" gone")
			}
		}
	}
	for name := range before {
		if after[name] == nil {
			found = append(found, "- "+name)
		}
	}
	slices.Sort(found)
	return found
}
