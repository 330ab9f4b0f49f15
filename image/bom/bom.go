// Package bom writes the bill of materials of a program.
package bom

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"runtime/debug"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"

	"github.com/dra-steward/dra-steward/image/licenses"
	"github.com/dra-steward/dra-steward/tools/build"
)

// Write writes what a program is made of as CycloneDX in JSON: for the same program, stamp
// and modules the same bytes. The modules are those of licenses.Find.
func Write(out io.Writer, program []byte, info *debug.BuildInfo, stamp build.Stamp, modules []licenses.Module) error {
	encoder := cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	return encoder.Encode(bill(program, info, stamp, modules))
}

func bill(program []byte, info *debug.BuildInfo, stamp build.Stamp, modules []licenses.Module) *cyclonedx.BOM {
	sum := sha256.Sum256(program)
	about := cyclonedx.Component{Type: cyclonedx.ComponentTypeApplication, BOMRef: "program", Name: path.Base(info.Path), Version: stamp.Version,
		PackageURL: purl(info.Main.Path, stamp.Version), Licenses: licensed([]string{"Apache-2.0"}),
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}}
	if stamp.Commit != "" {
		about.Properties = &[]cyclonedx.Property{{Name: "vcs:revision", Value: stamp.Commit}}
	}
	components, uses := []cyclonedx.Component{}, []string{}
	for _, m := range modules {
		url := purl(m.Path, m.Version)
		component := cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: m.Path, Version: m.Version, PackageURL: url, Licenses: licensed(m.IDs)}
		if m.Sum != "" { // that of go.sum, which is not one of a file
			component.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}
		}
		components, uses = append(components, component), append(uses, url)
	}
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = serial(sum)
	bom.Metadata = &cyclonedx.Metadata{Component: &about}
	if !stamp.Time.IsZero() {
		bom.Metadata.Timestamp = stamp.Time.UTC().Format(time.RFC3339)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: "program", Dependencies: &uses}}
	return bom
}

func licensed(ids []string) *cyclonedx.Licenses {
	var all cyclonedx.Licenses
	for _, id := range ids {
		all = append(all, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &all
}

// serial is a UUID of version 8, which carries a hash: one for each program.
func serial(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// purl is the package URL of a module.
func purl(name, version string) string { return "pkg:golang/" + name + "@" + version }
