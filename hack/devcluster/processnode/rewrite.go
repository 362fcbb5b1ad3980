package processnode

import (
	"slices"
	"strings"
)

// rewriter changes the paths a container would see into those of this machine.
//
// A container's text (arguments, values of variables) names paths below its
// mounts. There is no mount here, so each such name is replaced where it stands
// as a path of its own:
//
//	--config=/etc/app/config.yaml  →  --config=/…/volumes/config/config.yaml
//	/etc/application               →  /etc/application, which is another path
type rewriter struct {
	replacements []replacement
}

type replacement struct {
	from, to string
}

// newRewriter takes pairs in any order: of two mounts the one further in wins.
func newRewriter(replacements []replacement) *rewriter {
	sorted := slices.Clone(replacements)
	slices.SortStableFunc(sorted, func(a, b replacement) int { return len(b.from) - len(a.from) })
	return &rewriter{replacements: sorted}
}

// rewrite replaces every path in the text. What was put in is not looked at again.
func (r *rewriter) rewrite(text string) string {
	var result strings.Builder
	for i := 0; i < len(text); {
		if found := r.at(text, i); found != nil {
			result.WriteString(found.to)
			i += len(found.from)
			continue
		}
		result.WriteByte(text[i])
		i++
	}
	return result.String()
}

// at returns the replacement for the path that begins at position i, if one does.
func (r *rewriter) at(text string, i int) *replacement {
	if text[i] != '/' || !begins(text[:i]) {
		return nil
	}
	for j := range r.replacements {
		candidate := &r.replacements[j]
		rest, matches := strings.CutPrefix(text[i:], candidate.from)
		if matches && ends(rest) {
			return candidate
		}
	}
	return nil
}

// begins says whether an absolute path can follow this text: not in the middle
// of another path or of a URL, but after the empty host of file:///.
func begins(before string) bool {
	if before == "" || strings.HasSuffix(before, "://") {
		return true
	}
	last := before[len(before)-1]
	return !nameByte(last) && !strings.ContainsRune("/})", rune(last))
}

// ends says whether the path's last name is complete before this text.
func ends(after string) bool {
	return after == "" || !nameByte(after[0])
}

// nameByte says whether a byte is likely part of a file's name.
func nameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_' || b == '.' || b >= 0x80
}
