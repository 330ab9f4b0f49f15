package wire

import _ "embed"

// Source is the text of this package, for those who compile it into a program of
// another module.
//
//go:embed wire.go
var Source []byte
