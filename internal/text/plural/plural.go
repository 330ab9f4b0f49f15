// Package plural writes numbers with nouns, and lists of names.
package plural

import (
	"strconv"
	"strings"
)

// Of returns a number with a noun whose plural ends in s: "1 pod", "3 pods".
func Of(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// List joins the first names of a list, at most so many, and counts the others: "a, b and
// 3 more". Of total names, only the first need be there.
func List(names []string, most, total int) string {
	shown := names[:min(len(names), most)]
	text := strings.Join(shown, ", ")
	if rest := total - len(shown); rest > 0 {
		text += " and " + strconv.Itoa(rest) + " more"
	}
	return text
}
