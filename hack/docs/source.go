package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// source is a folder of Go code, its files in the order of their names, tests left out.
type source struct{ files []*ast.File }

func parse(dir string) (source, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return source{}, err
	}
	var s source
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return source{}, err
		}
		s.files = append(s.files, file)
	}
	return s, nil
}

// literal is the text of a constant that is written as one string.
func literal(s *ast.ValueSpec) (string, bool) {
	if len(s.Values) != 1 {
		return "", false
	}
	return text(s.Values[0], nil)
}

// text is the value of a string expression: a literal, a sum of them, or a name that known explains.
func text(e ast.Expr, known map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		a, okA := text(e.X, known)
		b, okB := text(e.Y, known)
		return a + b, okA && okB && e.Op == token.ADD
	case *ast.Ident:
		s, ok := known[e.Name]
		return s, ok
	default:
		return "", false
	}
}

// prose is a text on one line.
func prose(s string) string { return strings.Join(strings.Fields(s), " ") }

// cell is a text as it may stand in a table.
func cell(s string) string { return strings.ReplaceAll(prose(s), "|", `\|`) }
