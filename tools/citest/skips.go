package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// A Skip is a test that may be skipped in CI.
type Skip struct {
	Package string // its import path
	Test    *regexp.Regexp
	Reason  string
}

// readSkips reads lines of a package, a pattern for whole test names, and the
// reason. Empty lines and lines that start with # say nothing.
func readSkips(name string) ([]Skip, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("list of tests that may be skipped: %w", err)
	}
	var skips []Skip
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 3 {
			return nil, fmt.Errorf("%s:%d: want: package, pattern of tests, reason", name, number)
		}
		pattern, err := regexp.Compile("^(" + words[1] + ")$")
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		skips = append(skips, Skip{words[0], pattern, strings.Join(words[2:], " ")})
	}
	return skips, nil
}

func find(skips []Skip, pkg, test string) (listed bool, reason string) {
	for _, s := range skips {
		if s.Package == pkg && s.Test.MatchString(test) {
			return true, s.Reason
		}
	}
	return false, ""
}
