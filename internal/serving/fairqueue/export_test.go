package fairqueue

import "strings"

// GroupsOf is the number of groups that the tenants of an address have.
func (q *Queue) GroupsOf(address string) int {
	groups := map[*group]bool{}
	for name, t := range q.tenants {
		if of, _, _ := strings.Cut(name, "\x00"); of == address {
			groups[t.group] = true
		}
	}
	return len(groups)
}
