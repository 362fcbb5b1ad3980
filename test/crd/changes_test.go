package crd

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// changes are updates of stored objects, which are created as they were before, and updated to what they were meanwhile.
// Empty words mean accepted.
var changes = map[string]struct {
	kind      string
	nth       int
	before    []edit
	meanwhile []edit
	edits     []edit
	words     []string
}{
	"a run is cancelled":                         {kind: "AgentRun", edits: state("Cancelled")},
	"a run without a desired state is cancelled": {kind: "AgentRun", before: []edit{without("spec.desiredState")}, edits: state("Cancelled")},
	"the desired state is left out again":        {kind: "AgentRun", edits: []edit{without("spec.desiredState")}},
	"a cancelled run stays cancelled":            {kind: "AgentRun", before: state("Cancelled"), edits: []edit{set("spec.ttlSecondsAfterFinished", int64(1))}},
	"a cancelled run is taken up again":          {kind: "AgentRun", before: state("Cancelled"), edits: state("Running"), words: final},
	"a cancelled run is taken up by leaving the word out": {
		kind: "AgentRun", before: state("Cancelled"), edits: []edit{without("spec.desiredState")}, words: final,
	},
	"the time to live is changed":  {kind: "AgentRun", edits: []edit{set("spec.ttlSecondsAfterFinished", int64(3600))}},
	"the time to live is left out": {kind: "AgentRun", edits: []edit{without("spec.ttlSecondsAfterFinished")}},
	"a time to live is given later": {
		kind: "AgentRun", before: []edit{without("spec.ttlSecondsAfterFinished")}, edits: []edit{set("spec.ttlSecondsAfterFinished", int64(3600))},
	},
	"labels and annotations are free": {
		kind: "AgentRun", edits: []edit{set("metadata.labels", m{"a": "b"}), set("metadata.annotations", m{"a": "b"})},
	},

	"another definition is named":        {kind: "AgentRun", edits: []edit{set("spec.definitionRef.name", "other")}, words: frozen("definitionRef")},
	"the pinned revision is left out":    {kind: "AgentRun", edits: []edit{without("spec.definitionRef.revision")}, words: frozen("definitionRef")},
	"a limit is raised":                  {kind: "AgentRun", edits: []edit{set("spec.limits.turns", int64(100))}, words: frozen("limits")},
	"a limit is left out":                {kind: "AgentRun", edits: []edit{without("spec.limits.turns")}, words: frozen("limits")},
	"all limits are left out":            {kind: "AgentRun", edits: []edit{without("spec.limits")}, words: frozen("limits")},
	"limits are given later":             {kind: "AgentRun", before: []edit{without("spec.limits")}, edits: []edit{set("spec.limits", m{"turns": int64(1)})}, words: frozen("limits")},
	"an idempotency key is changed":      {kind: "AgentRun", edits: []edit{set("spec.idempotencyKey", "other")}, words: frozen("idempotencyKey")},
	"an idempotency key is left out":     {kind: "AgentRun", edits: []edit{without("spec.idempotencyKey")}, words: frozen("idempotencyKey")},
	"an idempotency key is given later":  {kind: "AgentRun", before: []edit{without("spec.idempotencyKey")}, edits: []edit{set("spec.idempotencyKey", "late")}, words: frozen("idempotencyKey")},
	"another principal is named":         {kind: "AgentRun", edits: []edit{set("spec.principal.user", "carol")}, words: kept},
	"the principal gets another group":   {kind: "AgentRun", edits: groups("support", "finance"), words: kept},
	"the principal is left out":          {kind: "AgentRun", edits: []edit{without("spec.principal")}, words: kept},
	"the principal's groups are removed": {kind: "AgentRun", edits: []edit{without("spec.principal.groups")}, words: kept},
	"a revision is edited":               {kind: "DefinitionRevision", edits: []edit{set("spec.agent.instructions", "Others.")}, words: []string{"spec", "a revision is immutable: edit the definition"}},

	"a JSON input is edited in a field":        {kind: "AgentRun", nth: 1, edits: []edit{set("spec.input.json.customer", int64(4712))}, words: frozen("input")},
	"a JSON input is edited deep inside":       {kind: "AgentRun", nth: 1, edits: []edit{set("spec.input.json.nested.x", int64(2))}, words: frozen("input")},
	"a JSON input gets a field":                {kind: "AgentRun", nth: 1, edits: []edit{set("spec.input.json.more", "x")}, words: frozen("input")},
	"a JSON input loses a field":               {kind: "AgentRun", nth: 1, edits: []edit{without("spec.input.json.nested")}, words: frozen("input")},
	"a JSON input has a field renamed":         {kind: "AgentRun", nth: 1, edits: []edit{without("spec.input.json.customer"), set("spec.input.json.client", int64(4711))}, words: frozen("input")},
	"a JSON input has a list reordered":        {kind: "AgentRun", nth: 1, edits: []edit{set("spec.input.json.tags", []any{"b", "a"})}, words: frozen("input")},
	"a JSON input changes its type":            {kind: "AgentRun", nth: 1, edits: []edit{set("spec.input.json", "word")}, words: frozen("input")},
	"a JSON input has a number made a string":  {kind: "AgentRun", nth: 1, edits: []edit{set("spec.input.json.customer", "4711")}, words: frozen("input")},
	"a JSON input is replaced by words":        {kind: "AgentRun", nth: 1, edits: input(m{"text": "Hello."}), words: frozen("input")},
	"words are replaced by a JSON input":       {kind: "AgentRun", edits: input(m{"json": "Hello."}), words: frozen("input")},
	"an input from elsewhere looks elsewhere":  {kind: "AgentRun", nth: 2, edits: []edit{set("spec.input.from.configMap.key", "tomorrow.txt")}, words: frozen("input")},
	"an input is written again as it was":      {kind: "AgentRun", nth: 1, edits: []edit{set("spec.input.json", m{"tags": []any{"a", "b"}, "nested": m{"x": int64(1)}, "customer": int64(4711)})}},
	"the groups of the principal are permuted": {kind: "AgentRun", before: groups("a", "b"), edits: groups("b", "a")},

	"a definition may change in all it says": {
		kind: "AgentDefinition", edits: []edit{set("spec.instructions", "Others."), set("spec.modelRef.name", "other"), without("spec.limits"), without("spec.description")},
	},
	"an endpoint may change": {kind: "ModelEndpoint", edits: []edit{set("spec.url", "https://other.example"), without("spec.pricing")}},
	"a revision may be labelled": {
		kind: "DefinitionRevision", edits: []edit{set("metadata.labels", m{"a": "b"})},
	},
	"a tool server may become another": {kind: "ToolServer", edits: overHTTP(without("spec.tools"), set("spec.release", "2"))},
	"a policy may change in all it says": {
		kind: "AgentPolicy", edits: []edit{without("spec.rules"), set("spec.limits.turns", int64(1))},
	},

	"an open request is decided":                   {kind: "ApprovalRequest", edits: verdict("Approved")},
	"a request without a phase is decided":         {kind: "ApprovalRequest", before: []edit{without("status.phase")}, edits: verdict("Denied")},
	"a request without a status is decided":        {kind: "ApprovalRequest", before: []edit{without("status")}, edits: verdict("Denied")},
	"a request that has expired is decided":        {kind: "ApprovalRequest", before: phase("Expired"), edits: verdict("Approved"), words: closed},
	"a request that was withdrawn is decided":      {kind: "ApprovalRequest", before: phase("Withdrawn"), edits: verdict("Approved"), words: closed},
	"a decision is turned round":                   {kind: "ApprovalRequest", meanwhile: verdict("Approved"), edits: []edit{set("spec.decision.verdict", "Denied")}, words: decided},
	"a decision is given a reason later":           {kind: "ApprovalRequest", meanwhile: verdict("Approved"), edits: []edit{set("spec.decision.reason", "Known.")}, words: decided},
	"a decision is ascribed to somebody else":      {kind: "ApprovalRequest", meanwhile: verdict("Approved"), edits: []edit{set("spec.decision.by", "carol")}, words: decided},
	"a decision loses its author":                  {kind: "ApprovalRequest", meanwhile: verdict("Approved"), edits: []edit{without("spec.decision.by")}, words: decided},
	"a decision loses its author's groups":         {kind: "ApprovalRequest", meanwhile: verdict("Approved"), edits: []edit{without("spec.decision.groups")}, words: decided},
	"a decision answers another question":          {kind: "ApprovalRequest", edits: []edit{set("spec.decision", m{"verdict": "Happened"})}, words: []string{"spec.decision.verdict", "answers another question"}},
	"a decision is taken back":                     {kind: "ApprovalRequest", meanwhile: verdict("Approved"), edits: []edit{without("spec.decision")}, words: decided},
	"a decision is written again as it was":        {kind: "ApprovalRequest", meanwhile: verdict("Approved"), edits: []edit{set("spec.decision.verdict", "Approved")}},
	"a decided request is labelled by one who may": {kind: "ApprovalRequest", meanwhile: verdict("Approved"), edits: []edit{set("metadata.labels", m{"a": "b"})}},
	"a request is decided and asks another pool at once": {
		kind: "ApprovalRequest", edits: append(verdict("Approved"), set("spec.pool", "mine")), words: asked,
	},
}

var (
	asked   = []string{"spec", "only spec.decision can be set: what is asked does not change"}
	decided = []string{"spec", "spec.decision is final: a request is decided once"}
	closed  = []string{"spec.decision: the request is no longer open (see status.phase)", "it asks again"}
)

func verdict(value string) []edit { return []edit{set("spec.decision", m{"verdict": value})} }
func phase(value string) []edit   { return []edit{set("status.phase", value)} }

var kept = []string{"spec.principal is immutable: it says who created the run"}

var final = []string{"spec.desiredState", "cancelled run cannot be taken up again", "create another run"}

func state(value string) []edit { return []edit{set("spec.desiredState", value)} }
func frozen(field string) []string {
	return []string{"spec." + field + " is immutable: create another run"}
}

func groups(names ...string) []edit {
	var list []any
	for _, name := range names {
		list = append(list, name)
	}
	return []edit{set("spec.principal.groups", list)}
}

// TestARunIsImmutable changes, removes and adds every field of a run's spec. Only two are free.
func TestARunIsImmutable(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace := server.Client(t), server.Namespace(t)
	free := map[string]bool{"spec.desiredState": true, "spec.ttlSecondsAfterFinished": true}
	everyChange(t, admin, "AgentRun", namespace, func(t *testing.T, path, what string, err error) {
		t.Helper()
		field := strings.Split(strings.TrimPrefix(path, "spec."), ".")[0]
		field, _, _ = strings.Cut(field, "[")
		if free["spec."+field] {
			if err != nil {
				t.Errorf("%s: %s is refused: %s", path, what, clip(err))
			}
			return
		}
		if err == nil {
			t.Errorf("%s: %s is accepted", path, what)
		} else if !strings.Contains(err.Error(), "spec."+field+" is immutable") {
			t.Errorf("%s: %s is refused without saying that spec.%s is immutable: %s", path, what, field, clip(err))
		}
	})
}

// TestARevisionIsImmutable changes, removes and adds every field of a revision.
func TestARevisionIsImmutable(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace := server.Client(t), server.Namespace(t)
	everyChange(t, admin, "DefinitionRevision", namespace, func(t *testing.T, path, what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: %s is accepted", path, what)
		} else if !strings.Contains(err.Error(), "a revision is immutable") {
			t.Errorf("%s: %s is refused without saying that a revision is immutable: %s", path, what, clip(err))
		}
	})
}

// TestWhatIsAskedIsImmutable changes, removes and adds every field of an approval request but the decision.
func TestWhatIsAskedIsImmutable(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace := server.Client(t), server.Namespace(t)
	everyChange(t, admin, "ApprovalRequest", namespace, func(t *testing.T, path, what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: %s is accepted", path, what)
		} else if !strings.Contains(err.Error(), "only spec.decision can be set") {
			t.Errorf("%s: %s is refused without saying that only the decision can be set: %s", path, what, clip(err))
		}
	})
}

// everyChange tries, on stored objects, to change each field, to remove each optional one, and to add each optional
// one to an object that was stored without it: a rule on a field alone is not asked about the last two.
func everyChange(t *testing.T, admin client.Client, kind, namespace string, judge func(t *testing.T, path, what string, err error)) {
	t.Helper()
	var full []*unstructured.Unstructured
	for nth := range examples[kind] {
		full = append(full, stored(t, admin, example(t, kind, nth, namespace)))
	}
	update := func(kept *unstructured.Unstructured, edits ...edit) error {
		changed := kept.DeepCopy()
		for _, edit := range edits {
			edit(t, changed.Object)
		}
		return admin.Update(t.Context(), changed, client.DryRunAll)
	}
	tries := 0
	walk(schemas(t)[kind], func(path string, field schema, required bool) {
		if !strings.HasPrefix(path, "spec.") || strings.HasPrefix(path, "spec.input.json") || strings.HasPrefix(path, "spec.decision") {
			return
		}
		kept := subject(path, full)
		if kept == nil {
			t.Errorf("%s is set in no example", path)
			return
		}
		if other, exists := another(path, field, at(kept.Object, path)); exists {
			tries++
			judge(t, path, "another value", update(kept, set(path, other)))
		}
		if required || strings.HasSuffix(path, "]") || strings.HasPrefix(path, "spec.input.") {
			return
		}
		tries += 2
		judge(t, path, "its removal", update(kept, without(path)))
		lacking := kept.DeepCopy()
		lacking.SetName(fresh("lacking"))
		lacking.SetResourceVersion("")
		delete(lacking.Object, "status")
		without(path)(t, lacking.Object)
		value := at(kept.Object, path)
		lacking = stored(t, admin, lacking)
		if has(lacking.Object, path) {
			return // Stamped at creation: it cannot be lacking.
		}
		judge(t, path, "its addition", update(lacking, set(path, value)))
	})
	t.Logf("%d changes tried", tries)
}

// another is a value of the field that differs and is valid by itself.
func another(path string, field schema, now any) (any, bool) {
	if len(field.Enum) > 0 {
		for _, raw := range field.Enum {
			if value := strings.Trim(string(raw.Raw), `"`); value != now {
				return value, true
			}
		}
		return nil, false
	}
	switch field.Type {
	case "integer":
		return now.(int64) + 1, true
	case "string":
		switch {
		case field.Format == "date-time":
			return "2027-01-01T00:00:00Z", true
		case strings.HasSuffix(path, "PerMTok"):
			return "3", true
		case strings.Contains(field.Pattern, "sha256"):
			return strings.Replace(digest, "0", "1", 1), true
		case strings.Contains(path, "egress.allow"):
			return "10.21.0.0/16", true
		}
		return now.(string) + "x", true
	}
	return nil, false
}
