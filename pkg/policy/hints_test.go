package policy

import (
	"strings"
	"testing"
)

// TestHintOnce: two violations of a policy with one hint give it once; another mode, policy
// or hint is given, too.
func TestHintOnce(t *testing.T) {
	deny := func(code, message, hint string) Violation {
		return Violation{Code: code, Mode: Deny, Paths: []string{"spec"}, Message: message, Hint: hint}
	}
	var all []string
	for _, m := range groupMessages([]Violation{
		deny("A", "hits 31 pods", "select fewer"), deny("A", "hits 9 namespaces", "select fewer"), deny("A", "is old", "renew it"), deny("B", "hits 31 pods", "select fewer"),
	}) {
		all = append(all, m.Message)
	}
	if got, want := strings.Join(all, "\n"), "hits 31 pods; select fewer\nhits 9 namespaces\nis old; renew it\nhits 31 pods; select fewer"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
