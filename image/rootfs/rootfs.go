// Package rootfs writes the root file system of an image.
package rootfs

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dra-steward/dra-steward/image/bom"
	"github.com/dra-steward/dra-steward/image/licenses"
	"github.com/dra-steward/dra-steward/tools/build"
)

// A Platform is what an image runs on, and the folder with its root file system.
type Platform struct {
	// OS and Arch are empty for those of this machine.
	OS, Arch string
	Dir      string
}

// Options say which files to write.
type Options struct {
	Platform
	// Tree is the root of the repository.
	Tree string
	// Program is one of tools/build.
	Program string
	Stamp   build.Stamp
}

// The files of an image.
const (
	Program    = "program"
	Bill       = "bom.json"
	License    = "LICENSE"
	ThirdParty = "THIRD-PARTY-LICENSES"
)

// Write builds the program and writes it with its bill of materials and licenses.
func Write(ctx context.Context, o Options) error {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(o.Dir, Program)
	if err := build.Program(ctx, build.Options{Tree: o.Tree, Program: o.Program, Output: file, OS: o.OS, Arch: o.Arch, Stamp: o.Stamp}); err != nil {
		return err
	}
	return Describe(ctx, file, o)
}

// Describe writes the files of an image other than the program, for a program that is built.
func Describe(ctx context.Context, file string, o Options) error {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	modules, err := licenses.Find(ctx, info, o.Tree)
	if err != nil {
		return err
	}
	var bill bytes.Buffer
	if err := bom.Write(&bill, program, info, o.Stamp, modules); err != nil {
		return err
	}
	own, err := os.ReadFile(filepath.Join(o.Tree, License))
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{Bill: bill.Bytes(), License: own, ThirdParty: licenses.Text(modules)} {
		if err := os.WriteFile(filepath.Join(o.Dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
