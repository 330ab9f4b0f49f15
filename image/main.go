// Command image makes the container images of the programs: what goes into them, the images in
// a folder, or pushed to a registry; the archives of the plugin of kubectl; and what goes into
// other archives. It needs Go and no container engine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/dra-steward/dra-steward/image/chart"
	"github.com/dra-steward/dra-steward/image/krew"
	"github.com/dra-steward/dra-steward/image/notes"
	"github.com/dra-steward/dra-steward/image/oci"
	"github.com/dra-steward/dra-steward/image/rootfs"
	"github.com/dra-steward/dra-steward/image/vex"
	"github.com/dra-steward/dra-steward/tools/build"
)

const usage = `usage: image root|save|push|krew|describe|notes|chart|vex [flags] TARGET

  root TARGET   write what goes into the image of one platform into the folder
  save TARGET   write the image into the folder, in the OCI layout
  push TARGET   push the image to the reference, such as registry.example.com/dra-steward:v0.1.0
  krew TARGET   write the archives from which krew installs, and their manifest, into the folder
  describe TARGET
                write the bill of materials and the licenses of the program -built into the folder
  notes TARGET  print the section of the version TARGET in CHANGELOG.md
  chart TARGET  copy the chart into the folder, and add what Artifact Hub shows of a release
  vex TARGET    write an OpenVEX document, if there is something to say: standard input is the
                output of govulncheck -format openvex

`

// What the platforms are unless -platforms names others.
const (
	imagePlatforms  = "linux/amd64,linux/arm64"
	pluginPlatforms = imagePlatforms + ",darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		stop()
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	tree := flags.String("tree", "..", "root of the repository")
	program := flags.String("program", build.Steward, "program: "+build.Steward+" or "+build.Scheduler)
	platforms := flags.String("platforms", imagePlatforms, "platforms, separated by commas; root takes one, by default that of this machine; krew by default "+pluginPlatforms)
	built := flags.String("built", "", "file of a program, for describe")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if len(args) == 0 {
		flags.Usage()
		return errors.New("want root, save, push, krew, describe, notes, chart or vex")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return fmt.Errorf("%s: want one target, have %d", args[0], flags.NArg())
	}
	stamp, err := build.Read(ctx, *tree)
	if err != nil {
		return err
	}
	target := flags.Arg(0)
	of := rootfs.Options{Tree: *tree, Program: *program, Stamp: stamp}
	switch args[0] {
	case "root":
		if chosen := set(flags, "platforms"); chosen {
			of.OS, of.Arch, _ = strings.Cut(*platforms, "/")
		}
		of.Dir = target
		return rootfs.Write(ctx, of)
	case "krew":
		if chosen := set(flags, "platforms"); !chosen {
			*platforms = pluginPlatforms
		}
		return plugin(ctx, target, strings.Split(*platforms, ","), of)
	case "describe":
		of.Dir = target
		return rootfs.Describe(ctx, *built, of)
	case "notes":
		return printNotes(*tree, target)
	case "chart":
		return chart.Write(target, *tree, strings.Split(*platforms, ","))
	case "vex":
		return writeVEX(target, stamp.Version)
	case "save", "push":
		return publish(ctx, args[0], target, strings.Split(*platforms, ","), of)
	}
	return fmt.Errorf("%s: want root, save, push, krew, describe, notes, chart or vex", args[0])
}

func set(flags *flag.FlagSet, name string) (is bool) {
	flags.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// printNotes prints the notes of a release.
func printNotes(tree, version string) error {
	changelog, err := os.ReadFile(filepath.Join(tree, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	text, err := notes.Of(string(changelog), version, oci.Source)
	if err != nil {
		return err
	}
	fmt.Print(text)
	return nil
}

// writeVEX writes an OpenVEX document, or says why there is none.
func writeVEX(target, version string) error {
	govulncheck, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	written, err := vex.Write(target, govulncheck, strings.TrimPrefix(oci.Source, "https://"), version, "The dra-steward authors")
	if err == nil && !written {
		fmt.Println("no module has a known vulnerability: there is nothing to say in an OpenVEX document")
	}
	return err
}

// plugin writes the archives for all platforms, and their manifest, into the folder.
func plugin(ctx context.Context, target string, platforms []string, of rootfs.Options) error {
	roots, remove, err := writeRoots(ctx, platforms, of)
	defer remove()
	if err != nil {
		return err
	}
	return krew.Write(target, of.Stamp, roots)
}

// writeRoots writes a root file system for each platform into temporary folders, until remove.
func writeRoots(ctx context.Context, platforms []string, of rootfs.Options) (roots []rootfs.Platform, remove func(), err error) {
	dir, err := os.MkdirTemp("", "dra-steward-image-")
	remove = func() { os.RemoveAll(dir) }
	if err != nil {
		return nil, func() {}, err
	}
	for _, platform := range platforms {
		goos, arch, ok := strings.Cut(platform, "/")
		if !ok {
			return nil, remove, fmt.Errorf("-platforms %s: want OS/ARCH, such as linux/amd64", platform)
		}
		of.OS, of.Arch, of.Dir = goos, arch, filepath.Join(dir, goos+"-"+arch)
		if err := rootfs.Write(ctx, of); err != nil {
			return nil, remove, err
		}
		roots = append(roots, of.Platform)
	}
	return roots, remove, nil
}

// publish makes the image for all platforms, and writes it to the target.
func publish(ctx context.Context, how, target string, platforms []string, of rootfs.Options) error {
	roots, remove, err := writeRoots(ctx, platforms, of)
	defer remove()
	if err != nil {
		return err
	}
	image, err := oci.New(of.Program, of.Stamp, roots)
	if err != nil {
		return err
	}
	if how == "save" {
		if err := image.Save(target, of.Stamp.Version); err != nil {
			return err
		}
		digest, err := image.Digest()
		fmt.Println(digest)
		return err
	}
	reference, err := image.Push(ctx, target)
	if err != nil {
		return err
	}
	fmt.Println(reference)
	return nil
}
