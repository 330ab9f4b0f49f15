package mutate

import "embed"

// Examples holds the example of every default, examples/<ID>.txtar. The time of
// the write in them is 2026-01-02T03:04:05Z.
//
//go:embed examples
var Examples embed.FS
