// Package depcheck keeps the architecture: it fails when an arrow between packages
// points up, when a pure package reaches a client, a policy engine or the clock,
// and when a function or a file outgrows what a reader takes in.
//
// The tables in table.go are the architecture. A new package gets a line there
// first; its floor says what it may import.
package depcheck
