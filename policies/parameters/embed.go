// Package parameters holds the JSON Schemas of the opaque parameters that DRA drivers
// take, as data: <driver>/<kind>.schema.json. Package opaque says how they are read.
package parameters

import "embed"

// Schemas are the files.
//
//go:embed */*.schema.json
var Schemas embed.FS
