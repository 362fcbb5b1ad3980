package rights

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Used are those of the rights that an account made use of, by the API server's audit log. A request that was refused used
// none.
func Used(log io.Reader, account string, rights []Right) (map[Right]bool, error) {
	used := map[Right]bool{}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if e.User.Username != account || e.Annotations["authorization.k8s.io/decision"] != "allow" {
			continue
		}
		for _, r := range rights {
			if e.uses(r) {
				used[r] = true
			}
		}
	}
	return used, lines.Err()
}

// event is what counts of a line of the audit log.
type event struct {
	Verb        string
	User        struct{ Username string }
	Annotations map[string]string
	ObjectRef   struct{ Resource, Subresource, Name, APIGroup string }
}

func (e event) uses(r Right) bool {
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return e.Verb == r.Verb && resource == r.Resource && e.ObjectRef.APIGroup == r.Group && (r.Name == "" || e.ObjectRef.Name == r.Name)
}
