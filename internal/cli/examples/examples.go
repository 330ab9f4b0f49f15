// Package examples reads the examples in the help of commands, by which tests run every command: a new
// command is tested as soon as it has an example.
package examples

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Of returns the runs of the program in the example of each command that is wanted: the words after the
// name of the program. It leaves out lines of several programs, and runs that read files of a cluster
// (--from-files).
func Of(root *cobra.Command, wanted func(*cobra.Command) bool) map[string][][]string {
	all := map[string][][]string{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if wanted(c) {
			path := strings.TrimPrefix(c.CommandPath(), root.Name()+" ")
			all[path] = nil
			for line := range strings.Lines(c.Example) {
				run, is := words(line)
				if is && len(run) > 0 && run[0] == root.Name() && !slices.Contains(run, "--from-files") {
					all[path] = append(all[path], run[1:])
				}
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return all
}

// words splits a line as a shell does, without its comment and the file that it writes. It reports false
// for a line of several programs.
func words(line string) (all []string, one bool) {
	var word strings.Builder
	quote, begun := rune(0), false
	end := func() {
		if begun {
			all = append(all, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case strings.ContainsRune("|;&", r):
			return nil, false
		case r == '>' || r == '#' && !begun:
			end()
			return all, true
		case r == ' ' || r == '\n':
			end()
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return all, quote == 0
}
