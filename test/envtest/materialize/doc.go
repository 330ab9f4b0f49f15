// Package materialize writes patches into slices on a real API server, under drivers that
// publish with upstream's code.
package materialize
