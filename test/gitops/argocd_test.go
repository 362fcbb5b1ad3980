package gitops

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/ekiden-dev/ekiden/test/apitest"
)

// scripts are the health checks for Argo CD, by kind.
func scripts(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(apitest.Path(t, "examples", "gitops", "argocd", "health", "*.lua"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no health checks: %v", err)
	}
	all := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".lua")] = string(content)
	}
	return all
}

// TestConfigMap: what people apply to argocd-cm holds these very scripts, and nothing else.
func TestConfigMap(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(apitest.Path(t, "examples", "gitops", "argocd", "argocd-cm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var got corev1.ConfigMap
	if err := yaml.UnmarshalStrict(content, &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "argocd-cm" || got.Namespace != "argocd" || got.Labels["app.kubernetes.io/part-of"] != "argocd" {
		t.Errorf("it is %s/%s with the labels %v, and Argo CD would not read it", got.Namespace, got.Name, got.Labels)
	}
	all := scripts(t)
	for kind, script := range all {
		key := "resource.customizations.health.ekiden.dev_" + kind
		if got.Data[key] != script {
			t.Errorf("%s is not what health/%s.lua says: run make generate", key, kind)
		}
	}
	if len(got.Data) != len(all) {
		t.Errorf("it has %d entries and there are %d scripts", len(got.Data), len(all))
	}
}

// health is what Argo CD shows of an object.
type health struct{ status, message string }

// patience is how long Argo CD lets a script run.
const patience = time.Second

// judge runs a script as Argo CD does: it sees the object as obj and has the basic functions and those for tables, but nothing for
// strings, files or processes.
func judge(t *testing.T, script string, o object) health {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l.SetContext(ctx)
	l.SetGlobal("obj", value(t, l, o.Object))
	if err := l.DoString(script); err != nil {
		t.Fatalf("%s: %v", o.state, err)
	}
	table, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("%s: the script returns no table", o.state)
	}
	return health{lua.LVAsString(table.RawGetString("status")), lua.LVAsString(table.RawGetString("message"))}
}

// value is a value of an object in Lua.
func value(t *testing.T, l *lua.LState, from any) lua.LValue {
	t.Helper()
	switch from := from.(type) {
	case string:
		return lua.LString(from)
	case int64:
		return lua.LNumber(from)
	case bool:
		return lua.LBool(from)
	case []any:
		list := l.NewTable()
		for _, item := range from {
			list.Append(value(t, l, item))
		}
		return list
	case map[string]any:
		table := l.NewTable()
		for key, item := range from {
			table.RawSetString(key, value(t, l, item))
		}
		return table
	default:
		t.Fatalf("%T is in no object of testdata", from)
		return nil
	}
}
