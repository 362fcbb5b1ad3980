package crd

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestEveryBoundHolds sets every field of every kind to each of its bounds, which is accepted, and one beyond,
// which is refused with the name of the field.
func TestEveryBoundHolds(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace := server.Client(t), server.Namespace(t)
	for kind, of := range schemas(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var variants []*unstructured.Unstructured
			for nth := range examples[kind] {
				variants = append(variants, example(t, kind, nth, namespace))
			}
			for nth, variant := range variants {
				if err := tried(t, admin, variant); err != nil {
					t.Fatalf("example %d is refused: %v", nth, err)
				}
			}
			status := statusSubject(t, admin, example(t, kind, 0, server.Namespace(t)))
			values := 0
			walk(of, func(path string, field schema, required bool) {
				if stamped[path] {
					return
				}
				subject, late := subject(path, variants), decision(t, path, variants[0])
				if late != nil {
					subject = late
				}
				if subject == nil {
					t.Errorf("%s is set in no example", path)
					return
				}
				try := func(edits ...edit) error {
					if strings.HasPrefix(path, "status.") {
						return status(t, edits...)
					}
					if late != nil {
						return tryDecision(t, admin, late, edits...)
					}
					changed := subject.DeepCopy()
					for _, edit := range edits {
						edit(t, changed.Object)
					}
					return tried(t, admin, changed)
				}
				for _, probe := range probes(path, field, required, subject.Object) {
					edits := append([]edit{probe.edit}, company[probe.key()]...)
					values++
					err := try(edits...)
					if probe.refused && err == nil {
						t.Errorf("%s: %s is accepted", path, probe.what)
					} else if probe.refused && !strings.Contains(err.Error(), path) {
						t.Errorf("%s: %s is refused without naming the field: %s", path, probe.what, clip(err))
					} else if !probe.refused && err != nil {
						t.Errorf("%s: %s is refused: %s", path, probe.what, clip(err))
					}
				}
			})
			t.Logf("%d values tried", values)
		})
	}
}

// subject is the first example in which the path is set.
func subject(path string, variants []*unstructured.Unstructured) *unstructured.Unstructured {
	for _, variant := range variants {
		if has(variant.Object, path) {
			return variant
		}
	}
	return nil
}

// stamped are fields that the API server writes over whatever it is sent: they have no bounds to try.
var stamped = map[string]bool{"spec.decision.by": true, "spec.decision.groups": true, "spec.decision.groups[0]": true}

// decision is the request with a decision, for the fields of one. No request is created with it.
func decision(t *testing.T, path string, of *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	if of.GetKind() != "ApprovalRequest" || !strings.HasPrefix(path, "spec.decision") {
		return nil
	}
	decided := of.DeepCopy()
	set("spec.decision", m{"verdict": "Approved", "reason": "Known."})(t, decided.Object)
	return decided
}

// tryDecision stores the request open and tries to write its decision, with edits.
func tryDecision(t *testing.T, admin client.Client, decided *unstructured.Unstructured, edits ...edit) error {
	t.Helper()
	open := decided.DeepCopy()
	without("spec.decision")(t, open.Object)
	given := decided.DeepCopy()
	for _, edit := range edits {
		edit(t, given.Object)
	}
	switch at(given.Object, "spec.decision.verdict") {
	case "Happened", "NotHappened", "Retry": // they answer another question
		for _, edit := range unsure() {
			edit(t, open.Object)
		}
	}
	kept := stored(t, admin, open)
	set("spec.decision", at(decided.Object, "spec.decision"))(t, kept.Object)
	for _, edit := range edits {
		edit(t, kept.Object)
	}
	return admin.Update(t.Context(), kept, client.DryRunAll)
}

// statusSubject stores an object, where its name is nobody else's, and returns a function that tries to write its status with edits.
func statusSubject(t *testing.T, admin client.Client, variant *unstructured.Unstructured) func(*testing.T, ...edit) error {
	t.Helper()
	if _, has := variant.Object["status"]; !has {
		return nil
	}
	kept := stored(t, admin, variant)
	return func(t *testing.T, edits ...edit) error {
		t.Helper()
		changed := kept.DeepCopy()
		for _, edit := range edits {
			edit(t, changed.Object)
		}
		return admin.Status().Update(t.Context(), changed, client.DryRunAll)
	}
}

// probe is one value for a field.
type probe struct {
	field   string
	what    string
	edit    edit
	refused bool
}

// key is what company knows the probe by.
func (p probe) key() string { return p.field + " " + p.what }

// company are edits that have to go with a probe, because a rule binds the field to another one.
var company = map[string][]edit{
	"spec.segment.softSeconds the greatest, 3600":       {set("spec.segment.hardSeconds", int64(3660))},
	"spec.agent.segment.softSeconds the greatest, 3600": {set("spec.agent.segment.hardSeconds", int64(3660))},
	"spec.segment.hardSeconds the smallest, 2":          {set("spec.segment.softSeconds", int64(1))},
	"spec.agent.segment.hardSeconds the smallest, 2":    {set("spec.agent.segment.softSeconds", int64(1))},

	"spec.rules[0].action Allow": {without("spec.rules[0].approval")},
	"spec.rules[0].action Deny":  {without("spec.rules[0].approval")},
	"spec.seat the greatest, 5":  {set("spec.seats", int64(5))},
	"spec.seats the smallest, 1": {set("spec.seat", int64(1))},
	"spec.type Indeterminate":    {set("spec.seat", int64(1)), set("spec.seats", int64(1))},
	"spec.tools[0].effect Read":  {without("spec.tools[0].probe")},
	"spec.type HTTP":             {without("spec.mcp"), set("spec.http", httpServer)},

	"spec.pods.tolerations[0].operator Exists":         {without("spec.pods.tolerations[0].value")},
	"spec.pods.tolerations[0].effect NoSchedule":       {without("spec.pods.tolerations[0].tolerationSeconds")},
	"spec.pods.tolerations[0].effect PreferNoSchedule": {without("spec.pods.tolerations[0].tolerationSeconds")},
}

// unreachable are fields whose pattern or rule leaves no value as long as the greatest length, or as short as the smallest.
var unreachable = []string{"PerMTok", "egress.allow[0]", "tolerations[0].key"}

// members are how the further items of a list are made, which must all differ.
var members = map[string]func(first any, nth int) any{
	".groups":           numbered("group"),
	".names":            numbered("name"),
	".query":            numbered("word"),
	"egress.allow":      func(_ any, nth int) any { return fmt.Sprintf("10.20.%d.0/24", nth) },
	".env":              func(first any, nth int) any { return with(first, "name", fmt.Sprintf("E_%d", nth)) },
	".tolerations":      func(first any, _ int) any { return first },
	".imagePullSecrets": numbered("secret"),
	"match.effects":     func(_ any, nth int) any { return []string{"Read", "Write", "Send", "Nonsense"}[nth] },
	"headers":           func(first any, nth int) any { return with(first, "name", fmt.Sprintf("X-%d", nth)) },
	"status.conditions": func(first any, nth int) any { return with(first, "type", fmt.Sprintf("Type%d", nth)) },
	"status.waitingOn":  func(first any, nth int) any { return with(first, "kind", []string{"Approval", "Nonsense"}[nth]) },
	".rules":            numbered("rule"),
	".servers":          numbered("server"),
	".tools":            numbered("tool"),
}

// numbered makes words that differ, or objects that differ by name if they have one.
func numbered(what string) func(any, int) any {
	return func(first any, nth int) any {
		word := fmt.Sprintf("%s-%d", what, nth)
		object, is := first.(map[string]any)
		switch {
		case !is:
			return word
		case object["name"] == nil:
			return first
		}
		return with(object, "name", word)
	}
}

func with(object any, name string, value any) any {
	changed := map[string]any{}
	for name, value := range object.(map[string]any) {
		changed[name] = value
	}
	changed[name] = value
	return changed
}

// probes are the values to try for a field.
func probes(path string, field schema, required bool, in map[string]any) []probe {
	var all []probe
	accepts := func(what string, value any) { all = append(all, probe{path, what, set(path, value), false}) }
	refuses := func(what string, value any) { all = append(all, probe{path, what, set(path, value), true}) }

	if required {
		all = append(all, probe{path, "its absence", without(path), true})
	}
	for _, raw := range field.Enum {
		var value any
		_ = json.Unmarshal(raw.Raw, &value)
		accepts(fmt.Sprintf("%v", value), value)
	}
	if len(field.Enum) > 0 {
		refuses("Nonsense", "Nonsense")
	}
	current := at(in, path)
	switch field.Type {
	case "integer":
		if field.Minimum != nil {
			accepts(fmt.Sprintf("the smallest, %d", int64(*field.Minimum)), int64(*field.Minimum))
			refuses(fmt.Sprintf("less than %d", int64(*field.Minimum)), int64(*field.Minimum)-1)
		}
		if field.Maximum != nil {
			accepts(fmt.Sprintf("the greatest, %d", int64(*field.Maximum)), int64(*field.Maximum))
			refuses(fmt.Sprintf("more than %d", int64(*field.Maximum)), int64(*field.Maximum)+1)
		}
		refuses("a word", "word")
	case "string":
		if field.MinLength != nil && *field.MinLength == 1 {
			refuses("an empty string", "")
		}
		if field.MaxLength != nil {
			base := fmt.Sprint(current)
			if field.Pattern == "" || !strings.Contains(field.Pattern, "sha256") {
				if !impossible(path) {
					accepts(fmt.Sprintf("%d characters", *field.MaxLength), padded(base, *field.MaxLength))
				}
				refuses(fmt.Sprintf("%d characters", *field.MaxLength+1), padded(base, *field.MaxLength+1))
			} else {
				refuses("a digit too many", base+"0")
				refuses("a digit too few", base[:len(base)-1])
			}
		}
		if field.Format == "date-time" {
			refuses("a time that is none", "yesterday")
		}
	case "object":
		if field.AdditionalProperties == nil {
			return all
		}
		refuses("an empty map", m{})
		accepts(fmt.Sprintf("%d entries", *field.MaxProperties), entries(int(*field.MaxProperties)))
		refuses(fmt.Sprintf("%d entries", *field.MaxProperties+1), entries(int(*field.MaxProperties)+1))
	case "array":
		first := current.([]any)[0]
		nth := member(path)
		if field.MinItems != nil {
			refuses("an empty list", []any{})
		}
		if field.MaxItems != nil {
			accepts(fmt.Sprintf("%d items", *field.MaxItems), items(first, nth, int(*field.MaxItems)))
			refuses(fmt.Sprintf("%d items", *field.MaxItems+1), items(first, nth, int(*field.MaxItems)+1))
		}
		if field.XListType == nil || *field.XListType != "atomic" {
			refuses("the same item twice", []any{first, first})
		}
	}
	return all
}

func impossible(path string) bool {
	for _, suffix := range unreachable {
		if strings.HasSuffix(path, suffix) {
			return true
		}
	}
	return false
}

func member(path string) func(any, int) any {
	for suffix, nth := range members {
		if strings.HasSuffix(path, suffix) {
			return nth
		}
	}
	panic("say in members how the items of " + path + " are made")
}

func items(first any, member func(any, int) any, count int) []any {
	all := []any{}
	for nth := range count {
		all = append(all, member(first, nth))
	}
	return all
}

// entries is a map of so many labels, or resources.
func entries(count int) m {
	all := m{}
	for nth := range count {
		all[fmt.Sprintf("example.com/e%d", nth)] = "1"
	}
	return all
}

func padded(base string, length int64) string {
	return base + strings.Repeat("x", max(0, int(length)-len(base)))
}

// at is the value at the end of a path.
func at(object map[string]any, path string) any {
	var value any = object
	for step := range strings.SplitSeq(strings.NewReplacer("[", ".", "]", "").Replace(path), ".") {
		switch from := value.(type) {
		case map[string]any:
			value = from[step]
		case []any:
			var index int
			_, _ = fmt.Sscan(step, &index)
			value = from[index]
		}
	}
	return value
}
