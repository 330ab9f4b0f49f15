// Command image makes the container images of the programs: what goes into them, the images in
// a folder, or pushed to a registry. It needs Go and no container engine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/dra-steward/dra-steward/image/oci"
	"github.com/dra-steward/dra-steward/image/root"
	"github.com/dra-steward/dra-steward/tools/build"
)

const usage = `usage: image root|save|push [flags] TARGET

  root TARGET   write what goes into the image of one platform into the folder
  save TARGET   write the image into the folder, in the OCI layout
  push TARGET   push the image to the reference, such as registry.example.com/dra-steward:v0.1.0

`

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
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "platforms, separated by commas; root takes one, by default that of this machine")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if len(args) == 0 {
		flags.Usage()
		return errors.New("want root, save or push")
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
	of := root.Options{Tree: *tree, Program: *program, Stamp: stamp}
	switch args[0] {
	case "root":
		if chosen := set(flags, "platforms"); chosen {
			of.OS, of.Arch, _ = strings.Cut(*platforms, "/")
		}
		of.Dir = target
		return root.Write(ctx, of)
	case "save", "push":
		return publish(ctx, args[0], target, strings.Split(*platforms, ","), of)
	}
	return fmt.Errorf("%s: want root, save or push", args[0])
}

func set(flags *flag.FlagSet, name string) (is bool) {
	flags.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// publish makes the image for all platforms, and writes it to the target.
func publish(ctx context.Context, how, target string, platforms []string, of root.Options) error {
	dir, err := os.MkdirTemp("", "dra-steward-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var roots []oci.Platform
	for _, platform := range platforms {
		goos, arch, ok := strings.Cut(platform, "/")
		if !ok {
			return fmt.Errorf("-platforms %s: want OS/ARCH, such as linux/amd64", platform)
		}
		of.OS, of.Arch, of.Dir = goos, arch, filepath.Join(dir, goos+"-"+arch)
		if err := root.Write(ctx, of); err != nil {
			return err
		}
		roots = append(roots, oci.Platform{OS: goos, Arch: arch, Root: of.Dir})
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
