package pod

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// Parse reads settings as spec.pods of an AgentPolicy has them. A field that is not known is refused, and so is what the API server
// would refuse there. An empty file says nothing.
func Parse(file []byte) (v1alpha1.PodSettings, error) {
	var s v1alpha1.PodSettings
	if err := yaml.UnmarshalStrict(file, &s); err != nil {
		return s, fmt.Errorf("it is to be written as spec.pods of an AgentPolicy: %w", err)
	}
	return s, Check(s)
}

// Check says which of the settings cannot be, field by field. It asks for the same as the schema of AgentPolicy.
func Check(s v1alpha1.PodSettings) error {
	var c checks
	c.name("serviceAccountName", s.ServiceAccountName)
	c.name("runtimeClassName", s.RuntimeClassName)
	c.name("priorityClassName", s.PriorityClassName)
	c.most("imagePullSecrets", len(s.ImagePullSecrets), 16)
	for i, r := range s.ImagePullSecrets {
		c.add(fmt.Sprintf("imagePullSecrets[%d].name", i), validation.IsDNS1123Subdomain(r.Name)...)
	}
	c.labels("nodeSelector", words(s.NodeSelector))
	c.labels("labels", words(s.Labels))
	c.reserved("labels", words(s.Labels), "app.kubernetes.io/name", "app.kubernetes.io/component", "app.kubernetes.io/managed-by", "controller-uid", "job-name")
	c.annotations(words(s.Annotations))
	c.reserved("annotations", words(s.Annotations))
	c.profiles(s.Annotations)
	c.most("tolerations", len(s.Tolerations), 32)
	for i, t := range s.Tolerations {
		c.toleration(fmt.Sprintf("tolerations[%d]", i), t)
	}
	c.amounts("resources.requests", s.Resources.Requests)
	c.amounts("resources.limits", s.Resources.Limits)
	c.env(s.Env)
	return errors.Join(c...)
}

// checks are what was found.
type checks []error

func (c *checks) add(field string, problems ...string) {
	for _, p := range problems {
		*c = append(*c, fmt.Errorf("%s: %s", field, p))
	}
}

func (c *checks) name(field, name string) {
	if name != "" {
		c.add(field, validation.IsDNS1123Subdomain(name)...)
	}
}

func (c *checks) most(field string, n, most int) {
	if n > most {
		c.add(field, fmt.Sprintf("has %d entries, and may have %d", n, most))
	}
}

func (c *checks) labels(field string, labels map[string]string) {
	c.most(field, len(labels), 32)
	for key, value := range labels {
		c.add(field+"["+key+"]", append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)...)
	}
}

func (c *checks) annotations(annotations map[string]string) {
	c.most("annotations", len(annotations), 32)
	for key, value := range annotations {
		c.add("annotations["+key+"]", validation.IsQualifiedName(strings.ToLower(key))...)
		if len(value) > 4096 {
			c.add("annotations["+key+"]", "has more than 4096 characters")
		}
	}
}

// reserved refuses keys that are set for each pod.
func (c *checks) reserved(field string, m map[string]string, keys ...string) {
	for key := range m {
		if strings.HasPrefix(key, "ekiden.dev/") || strings.HasPrefix(key, "batch.kubernetes.io/") || slices.Contains(keys, key) {
			c.add(field+"["+key+"]", "is set for each pod: choose a key with a prefix of your own, such as example.com/team")
		}
	}
}

// profiles refuses annotations by which a node or the API server would take the profile of a container, beside what a pod says of it.
func (c *checks) profiles(annotations map[string]v1alpha1.PodAnnotationValue) {
	for key := range annotations {
		for _, prefix := range []string{
			"container.apparmor.security.beta.kubernetes.io/", "container.seccomp.security.alpha.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/",
		} {
			if strings.HasPrefix(key, prefix) {
				c.add("annotations["+key+"]", "would loosen what a pod may do: AppArmor and seccomp are set for each pod")
			}
		}
	}
}

func (c *checks) toleration(field string, t v1alpha1.PodToleration) {
	c.add(field+".key", validation.IsQualifiedName(t.Key)...)
	c.add(field+".value", validation.IsValidLabelValue(t.Value)...)
	if !slices.Contains([]v1alpha1.PodTolerationOperator{"", v1alpha1.TolerationEqual, v1alpha1.TolerationExists}, t.Operator) {
		c.add(field+".operator", "is neither Equal nor Exists")
	}
	if !slices.Contains([]v1alpha1.PodTaintEffect{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}, t.Effect) {
		c.add(field+".effect", "is none of NoSchedule, PreferNoSchedule, NoExecute")
	}
	if t.Value != "" && t.Operator == v1alpha1.TolerationExists {
		c.add(field, "a value goes with the operator Equal: take out one of them")
	}
	if t.TolerationSeconds != nil && (t.Effect != "NoExecute" || *t.TolerationSeconds < 0) {
		c.add(field+".tolerationSeconds", "goes with the effect NoExecute, and is not negative")
	}
}

func (c *checks) amounts(field string, amounts map[string]resource.Quantity) {
	c.most(field, len(amounts), 16)
	for name, amount := range amounts {
		c.add(field+"["+name+"]", validation.IsQualifiedName(name)...)
		if amount.Sign() < 0 {
			c.add(field+"["+name+"]", "is negative")
		}
	}
}

func (c *checks) env(env []v1alpha1.PodEnv) {
	c.most("env", len(env), 32)
	for i, e := range env {
		field := fmt.Sprintf("env[%d].name", i)
		c.add(field, validation.IsCIdentifier(e.Name)...)
		switch {
		case e.Name == "POD_NAME", e.Name == "POD_UID", strings.HasPrefix(e.Name, "EKIDEN_"), strings.HasPrefix(e.Name, "PG"):
			c.add(field, e.Name+" is set for each pod, or would change how Postgres is reached: choose another name")
		case slices.Contains([]string{"http_proxy", "https_proxy", "all_proxy", "no_proxy"}, strings.ToLower(e.Name)):
			c.add(field, e.Name+": a proxy is not taken from a variable, which nothing would guard: set spec.proxy of the ModelEndpoint or the ToolServer")
		}
		if e.Value == "" || len(e.Value) > 4096 {
			c.add(fmt.Sprintf("env[%d].value", i), "has no character, or more than 4096")
		}
	}
}
