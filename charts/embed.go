// Package charts carries dra-steward's Helm chart inside the module, so that
// importers of the module render and install exactly the chart that ships
// with it: tests, the demo, and the continuous integration of other projects.
package charts

import "embed"

// Name is the name of the chart and of the folder in [FS] that holds it.
const Name = "dra-steward"

// FS holds the chart's files below [Name].
//
//go:embed all:dra-steward
var FS embed.FS
