package printable_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/text/printable"
)

func TestPrintf(t *testing.T) {
	var out strings.Builder
	if _, err := printable.Printf(&out, "%s\t%-4d|%q\n%s %v\n", "a\tb", 3, "c\n", printable.Cells{"d\n", "::e::"}, errors.New("f\ng")); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), `a\u0009b`+"\t3   |"+`"c\n"`+"\n"+`d\u000a`+"\t"+`\u003a:e:: f\u000ag`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPage(t *testing.T) {
	var out strings.Builder
	if err := printable.Page(&out, "# a\n\tb\r\n::error::c\n"); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "# a\n\tb\\u000d\n\\u003a:error::c\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestError(t *testing.T) {
	forged := errors.New("a\n::error::forged")
	for want, err := range map[string]error{
		`a\u000a::error::forged`:               forged,
		"b\n" + `a\u000a::error::forged`:       errors.Join(errors.New("b"), forged),
		"c: b\n" + `a\u000a::error::forged`:    fmt.Errorf("c: %w", errors.Join(errors.New("b"), forged)),
		`c: a\u000a::error::forged`:            fmt.Errorf("c: %w", forged),
		`c: a\u000a::error::forged, d\u000a.`:  fmt.Errorf("c: %w, %w.", forged, errors.New("d\n")),
		`(b\u000aa\u000a::error::forged) at f`: fmt.Errorf("(%w) at f", errors.Join(errors.New("b"), forged)),
	} {
		if got := printable.Error(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
