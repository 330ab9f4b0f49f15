// Command image makes the container images of the programs: what goes into them, the images in
// a folder, or pushed to a registry; the archives of the plugin of kubectl; and what goes into
// other archives. It needs Go and no container engine.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/image/chart"
	"github.com/dra-steward/dra-steward/image/krew"
	"github.com/dra-steward/dra-steward/image/notes"
	"github.com/dra-steward/dra-steward/image/oci"
	"github.com/dra-steward/dra-steward/image/rootfs"
	"github.com/dra-steward/dra-steward/image/vex"
	"github.com/dra-steward/dra-steward/tools/build"
)

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

// A request is a command with its flags and target.
type request struct {
	target, built string
	// fingerprint and keyURL are of the key that signs the chart.
	fingerprint, keyURL string
	// platforms are those of the flag, nil without it.
	platforms []string
	of        rootfs.Options
}

func (r request) platformsOr(otherwise string) []string {
	if r.platforms == nil {
		return strings.Split(otherwise, ",")
	}
	return r.platforms
}

// A command is the first argument of the program.
type command struct {
	name, help string
	run        func(context.Context, request) error
}

func commands() []command {
	return []command{
		{"root", "write what goes into the image of one platform into the folder", root},
		{"save", "write the image into the folder, in the OCI layout", save},
		{"push", "push the image to the reference, such as registry.example.com/dra-steward:v0.1.0", push},
		{"krew", "write the archives from which krew installs, and their manifest, into the folder", plugin},
		{"describe", "write the bill of materials and the licenses of the program -built into the folder", describe},
		{"notes", "print the section of the version in CHANGELOG.md", printNotes},
		{"chart", "copy the chart into the folder, and add what Artifact Hub shows of a release", writeChart},
		{"vex", "write an OpenVEX document of the program into the file, if there is something to say: standard input is the output of govulncheck -format openvex in its module", writeVEX},
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	tree := flags.String("tree", "..", "root of the repository")
	program := flags.String("program", build.Steward, "program: "+build.Steward+" or "+build.Scheduler)
	platforms := flags.String("platforms", "", "platforms, separated by commas (default: "+imagePlatforms+"; of krew "+pluginPlatforms+"; of root, which takes one, that of this machine)")
	built := flags.String("built", "", "file of a program, for describe")
	fingerprint := flags.String("key-fingerprint", "", "fingerprint of the OpenPGP key that signs the chart, for chart; Artifact Hub shows no key without it")
	keyURL := flags.String("key-url", "", "https URL of the public part of that key, for chart")
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	flags.Usage = func() { printUsage(flags, names) }
	if len(args) == 0 || !slices.Contains(names, args[0]) {
		flags.Usage()
		return fmt.Errorf("want %s as the first argument", strings.Join(names, ", "))
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
	r := request{target: flags.Arg(0), built: *built, fingerprint: *fingerprint, keyURL: *keyURL, of: rootfs.Options{Tree: *tree, Program: *program, Stamp: stamp}}
	if *platforms != "" {
		r.platforms = strings.Split(*platforms, ",")
	}
	return commands()[slices.Index(names, args[0])].run(ctx, r)
}

func printUsage(flags *flag.FlagSet, names []string) {
	fmt.Fprintf(flags.Output(), "usage: image %s [flags] TARGET\n\n", strings.Join(names, "|"))
	for _, c := range commands() {
		fmt.Fprintf(flags.Output(), "  %-9s %s\n", c.name, c.help)
	}
	fmt.Fprintln(flags.Output())
	flags.PrintDefaults()
}

// root writes the root file system of one platform.
func root(ctx context.Context, r request) error {
	if len(r.platforms) > 1 {
		return fmt.Errorf("-platforms %s: root takes one", strings.Join(r.platforms, ","))
	}
	if len(r.platforms) == 1 {
		r.of.OS, r.of.Arch, _ = strings.Cut(r.platforms[0], "/")
	}
	r.of.Dir = r.target
	return rootfs.Write(ctx, r.of)
}

// describe writes what goes beside a program into other archives.
func describe(ctx context.Context, r request) error {
	r.of.Dir = r.target
	return rootfs.Describe(ctx, r.built, r.of)
}

// printNotes prints the notes of a release.
func printNotes(_ context.Context, r request) error {
	changelog, err := os.ReadFile(filepath.Join(r.of.Tree, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	text, err := notes.Of(string(changelog), r.target, oci.Source)
	if err != nil {
		return err
	}
	fmt.Print(text)
	return nil
}

// writeChart writes the chart of a release.
func writeChart(_ context.Context, r request) error {
	return chart.Write(r.target, r.of.Tree, r.platformsOr(imagePlatforms), r.fingerprint, r.keyURL)
}

// writeVEX writes an OpenVEX document, or says why there is none.
func writeVEX(_ context.Context, r request) error {
	govulncheck, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	module, err := moduleOf(r.of.Program)
	if err != nil {
		return err
	}
	written, err := vex.Write(r.target, govulncheck, module, r.of.Stamp.Version, "The dra-steward authors")
	if err == nil && !written {
		fmt.Println(r.of.Program + ": no module has a known vulnerability: there is nothing to say in an OpenVEX document")
	}
	return err
}

// moduleOf is the module of a program, which its bill of materials names.
func moduleOf(program string) (string, error) {
	module := strings.TrimPrefix(oci.Source, "https://")
	switch program {
	case build.Steward:
		return module, nil
	case build.Scheduler:
		return module + "/scheduler", nil
	}
	return "", fmt.Errorf("there is no program %q: want %s or %s", program, build.Steward, build.Scheduler)
}

// plugin writes the archives for all platforms, and their manifest, into the folder.
func plugin(ctx context.Context, r request) error {
	roots, remove, err := writeRoots(ctx, r.platformsOr(pluginPlatforms), r.of)
	defer remove()
	if err != nil {
		return err
	}
	return krew.Write(r.target, r.of.Stamp, roots)
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

// save writes the image for all platforms into a folder, and prints its digest.
func save(ctx context.Context, r request) error {
	image, remove, err := newImage(ctx, r)
	defer remove()
	if err != nil {
		return err
	}
	if err := image.Save(r.target, r.of.Stamp.Version); err != nil {
		return err
	}
	digest, err := image.Digest()
	fmt.Println(digest)
	return err
}

// push pushes the image for all platforms, and prints its reference with the digest.
func push(ctx context.Context, r request) error {
	image, remove, err := newImage(ctx, r)
	defer remove()
	if err != nil {
		return err
	}
	reference, err := image.Push(ctx, r.target)
	if err != nil {
		return err
	}
	fmt.Println(reference)
	return nil
}

// newImage makes the image for all platforms from files that are there until remove.
func newImage(ctx context.Context, r request) (_ *oci.Image, remove func(), err error) {
	roots, remove, err := writeRoots(ctx, r.platformsOr(imagePlatforms), r.of)
	if err != nil {
		return nil, remove, err
	}
	image, err := oci.New(r.of.Program, r.of.Stamp, roots)
	return image, remove, err
}
