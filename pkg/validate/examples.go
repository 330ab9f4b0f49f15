package validate

import "embed"

// Examples holds the example of every rule, examples/<ID>.txtar.
//
//go:embed examples
var Examples embed.FS
