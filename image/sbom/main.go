// Command sbom writes what a Go program is made of, by what the compiler wrote into it, as
// CycloneDX in JSON: for the same program the same bytes.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"runtime/debug"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM >bom.json")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(2)
	}
}

// write writes the components of a program.
func write(program string, out io.Writer) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	encoder := cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	return encoder.Encode(bill(info, data))
}

func bill(info *debug.BuildInfo, program []byte) *cyclonedx.BOM {
	sum := sha256.Sum256(program)
	about := cyclonedx.Component{Type: cyclonedx.ComponentTypeApplication, BOMRef: "program", Name: path.Base(info.Path), Version: info.Main.Version,
		PackageURL: purl(info.Main.Path, info.Main.Version),
		Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}}
	components, uses := []cyclonedx.Component{}, []string{}
	add := func(name, version, sum string) {
		url := purl(name, version)
		component := cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: name, Version: version, PackageURL: url}
		if sum != "" { // that of go.sum, which is not one of a file
			component.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: sum}}
		}
		components, uses = append(components, component), append(uses, url)
	}
	add("std", info.GoVersion, "")
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		add(module.Path, module.Version, module.Sum)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &about}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: "program", Dependencies: &uses}}
	return bom
}

// purl is the package URL of a module.
func purl(name, version string) string { return "pkg:golang/" + name + "@" + version }
