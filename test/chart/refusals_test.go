package chart

import (
	"strings"
	"testing"
)

// TestTheChartRefuses: before anything reaches the cluster, and with the name of what is wrong.
func TestTheChartRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ values, want string }{
		"a value that there is not":                 {"manger: {replicas: 3}", "additional properties 'manger' not allowed"},
		"a value with a slip below":                 {"manager: {replica: 3}", "at '/manager': additional properties 'replica' not allowed"},
		"a number as text":                          {`manager: {replicas: "3"}`, "at '/manager/replicas': got string, want integer"},
		"fewer managers than none":                  {"manager: {replicas: -1}", "at '/manager/replicas': minimum"},
		"no image of the manager":                   {`manager: {image: {repository: ""}}`, noImage("manager")},
		"no image of segments":                      {`segment: {image: {repository: ""}}`, noImage("segment")},
		"no image of the trial":                     {`postgres: {trial: {image: {repository: ""}}}`, "at '/postgres/trial/image/repository': minLength"},
		"an image with its digest in the name":      {"segment: {image: {repository: a@" + digest + "}}", "at '/segment/image/repository'"},
		"a tag that is a number":                    {"manager: {image: {tag: 1.2}}", "at '/manager/image/tag': got number, want string"},
		"a digest without its kind":                 {"manager: {image: {digest: 0123abcd}}", "at '/manager/image/digest'"},
		"a policy of pulling that there is not":     {"manager: {image: {pullPolicy: Sometimes}}", "at '/manager/image/pullPolicy': value must be one of"},
		"a pull secret by its bare name":            {"manager: {imagePullSecrets: [registry]}", "at '/manager/imagePullSecrets/0': got string, want object"},
		"an amount that is none":                    {"manager: {resources: {limits: {memory: lots}}}", "/manager/resources/limits/memory"},
		"a label of nodes that is a number":         {"manager: {nodeSelector: {pool: 1}}", "at '/manager/nodeSelector/pool': got number, want string"},
		"another label by which managers are found": {"manager: {podLabels: {app.kubernetes.io/name: mine}}", "at '/manager/podLabels/app.kubernetes.io~1name': value must be 'ekiden'"},
		"a variable without a name":                 {"manager: {extraEnv: [{value: a}]}", "at '/manager/extraEnv/0': missing property 'name'"},
		"an address without a port":                 {"segment: {postgresAddress: db.svc}", "at '/segment/postgresAddress'"},
		"a default of pods that there is not":       {"segment: {pods: {hostNetwork: true}}", "at '/segment/pods': additional properties 'hostNetwork' not allowed"},
		"a toleration of every taint for segments":  {"segment: {pods: {tolerations: [{operator: Exists}]}}", "at '/segment/pods/tolerations/0': missing property 'key'"},
		"a variable of segments from a Secret":      {"segment: {pods: {env: [{name: A, valueFrom: {}}]}}", "/segment/pods/env/0"},
		"a runtime class that is no name":           {"segment: {pods: {runtimeClassName: g_visor}}", "at '/segment/pods/runtimeClassName'"},
		"no Postgres":                               {`postgres: {dsnSecret: {name: ""}}`, "There is no Postgres. Set postgres.dsnSecret.name to a Secret that holds the DSN of one, or postgres.trial.enabled to try Ekiden out"},
		"no key of the DSN":                         {`postgres: {dsnSecret: {key: ""}}`, "at '/postgres/dsnSecret/key'"},
		"a password that a URL does not hold":       {"postgres: {trial: {enabled: true, password: 'p@ssword/p@ssword'}}", "at '/postgres/trial/password'"},
		"a port that there is not":                  {"networkPolicy: {postgresPorts: [70000]}", "at '/networkPolicy/postgresPorts/0': maximum"},
		"a NetworkPolicy without the API server":    {"networkPolicy: {apiServerPorts: []}", "at '/networkPolicy/apiServerPorts': minItems"},
		"an interval without a unit":                {`metrics: {serviceMonitor: {interval: "30"}}`, "at '/metrics/serviceMonitor/interval'"},
		"yes as text":                               {`crds: {install: "yes"}`, "at '/crds/install': got string, want boolean"},
		"a time to keep without a unit":             {`keep: {sessions: "30"}`, "at '/keep/sessions'"},
		"a level of logs by name":                   {"log: {level: debug}", "at '/log/level': got string, want integer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := template(t, c.values)
			if err == nil {
				t.Fatal("it was taken")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

// noImage is what is said of an image that nobody named.
func noImage(of string) string {
	return "There is no image of the " + of + ": no images are published yet. Build them with `make images`, push them to a registry of yours, and set " +
		of + ".image.repository to the name there"
}

// TestNoImageIsNamedByDefault: a name without a registry would be somebody's on a public one.
func TestNoImageIsNamedByDefault(t *testing.T) {
	t.Parallel()
	for missing, set := range map[string]string{"manager": "segment.image.repository=a", "segment": "manager.image.repository=a"} {
		if _, err := helm(t, "template", release, chart, "--kube-version", oldest, "--set", set); err == nil || !strings.Contains(err.Error(), noImage(missing)) {
			t.Errorf("without %s.image.repository: %v", missing, err)
		}
	}
}

func TestTheChartRefusesAnOldCluster(t *testing.T) {
	t.Parallel()
	if _, err := template(t, "", "--kube-version", "1.35.9"); err == nil || !strings.Contains(err.Error(), "chart requires kubeVersion: >=1.36.0-0") {
		t.Errorf("got %v", err)
	}
	for _, taken := range []string{"1.36.0", "1.36.2-gke.1", "1.37.2"} {
		if _, err := template(t, "", "--kube-version", taken); err != nil {
			t.Errorf("%s is refused: %v", taken, err)
		}
	}
}
