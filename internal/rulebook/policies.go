package rulebook

import (
	"fmt"
	"strings"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// Policies are entries for the policies of a set; none for nil.
func Policies(set *policy.Set) (book Book) {
	if set == nil {
		return nil
	}
	for _, p := range set.Policies() {
		book = append(book, Entry{
			ID: p.Code, What: fmt.Sprintf("policy (%s, severity %s)", p.Mode, p.Severity),
			Doc: p.Title + ".\n\n" + strings.TrimSpace(p.Description), Upstream: "does not check it",
			Source: strings.Join(p.Related, ", "), Kinds: p.Kinds,
		})
	}
	return book
}
