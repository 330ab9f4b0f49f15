// Package krew fills in the manifest with which krew installs dra-steward as a plugin of
// kubectl.
package krew

import (
	"bytes"
	_ "embed"
	"fmt"
	"text/template"
)

// File is the name of the manifest.
const File = "dra-steward.yaml"

// Plugin is the program of an archive: kubectl runs it for "kubectl dra-steward".
const Plugin = "kubectl-dra_steward"

//go:embed dra-steward.yaml.tmpl
var manifest string

// A Release is what the manifest names.
type Release struct {
	// Version is a semantic version with its v.
	Version  string
	Archives []Archive
}

// An Archive is the program for one platform.
type Archive struct {
	OS, Arch string
	// SHA256 is the sum of the archive, in hexadecimal.
	SHA256 string
}

// Name is the name of the archive's file.
func (a Archive) Name() string { return fmt.Sprintf("%s_%s_%s.tar.gz", Plugin, a.OS, a.Arch) }

// Binary is the file of the program in the archive.
func (a Archive) Binary() string {
	if a.OS == "windows" {
		return Plugin + ".exe"
	}
	return Plugin
}

// Manifest returns the manifest of a release.
func Manifest(r Release) ([]byte, error) {
	t, err := template.New(File).Parse(manifest)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, r); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
