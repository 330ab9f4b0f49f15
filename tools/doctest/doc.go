// Package doctest reads our Markdown pages, so that tests can hold them to what they
// say: commands are run, links lead somewhere, excerpts stand where they come from.
//
// What a fenced block promises is in its info string:
//
//	console          commands after "$ ", each followed by its exact output; run by
//	                 the tests of this package, with sh from the root of the tree
//	LANG from=FILE   an excerpt of FILE
//	LANG file=PATH   a file that the reader makes
//	sh in=FOLDER     commands that the reader runs in a folder that he makes, and
//	text printed=FOLDER
//	                 what they print; run by the tests of tools/modules
//	text from=demo   what "make demo" prints
//	text from=tree   paths of this tree with a word about each
//	text from=floors the packages of depcheck's table, by floor
//	sh               commands that need a cluster or change the machine. Those of README.md
//	                 run in a fresh clone in make test-long, unless a comment before the
//	                 block says why not: <!-- not run: REASON -->; others are not run
package doctest
