// Package plural writes numbers with nouns.
package plural

import "strconv"

// Of returns a number with a noun whose plural ends in s: "1 pod", "3 pods".
func Of(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
