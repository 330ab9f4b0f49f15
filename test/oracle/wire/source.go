package wire

import "embed"

// Source is the text of this package, for those who compile it into a program of
// another module.
//
//go:embed wire.go removed.go
var Source embed.FS
