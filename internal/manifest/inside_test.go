package manifest_test

import (
	"fmt"
	"testing"
)

const texts = `kind: DeviceClass
literal: |
    first
      sécond x
kept: |2+

    third
folded: >-
  ein zwei
  drei
plain: a b
lines: a
  b
single: 'it''s so'
double: "a\"b\nc\u0041d"
list: [{text: "x y"}]
alias: &anchor |
  named
same: *anchor
number: 12
`

func TestPositionIn(t *testing.T) {
	document := one(t, texts)
	for _, tt := range []struct {
		path         string
		line, column int
		want         string
	}{
		{"literal", 1, 1, "3:5"},
		{"literal", 2, 3, "4:7"},
		{"literal", 2, 10, "4:14"},
		{"literal", 2, 11, "4:15"}, // the end of the line
		{"literal", 3, 1, "5:1"},
		{"literal", 4, 1, "no"},
		{"kept", 2, 3, "7:5"},
		{"folded", 1, 5, "9:7"},
		{"folded", 1, 10, "10:3"},
		{"plain", 1, 3, "11:10"},
		{"lines", 1, 3, "13:3"},
		{"single", 1, 6, "14:16"},
		{"double", 1, 3, "15:13"},
		{"double", 2, 1, "15:16"},
		{"double", 2, 3, "no"},
		{"list[0].text", 1, 3, "16:18"},
		{"same", 1, 3, "18:5"},
		{"list", 1, 1, "no"},
		{"none", 1, 1, "no"},
		{"plain", 0, 1, "no"},
		{"plain", 1, 9, "no"},
	} {
		got := "no"
		if line, column, ok := document.PositionIn(tt.path, tt.line, tt.column); ok {
			got = fmt.Sprintf("%d:%d", line, column)
		}
		if got != tt.want {
			t.Errorf("%s %d:%d: %s, want %s", tt.path, tt.line, tt.column, got, tt.want)
		}
	}
}

func TestPositionInJSON(t *testing.T) {
	document := one(t, `{"kind": "A",
  "text": "a \"b\" c"}`)
	if line, column, ok := document.PositionIn("text", 1, 7); !ok || line != 2 || column != 20 {
		t.Errorf("%d:%d %t, want 2:20", line, column, ok)
	}
}
