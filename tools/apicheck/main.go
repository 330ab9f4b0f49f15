// Command apicheck writes the exported API of the packages that other projects import, one
// text file a package, so that a review sees every change of it.
//
//	go run ./tools/apicheck .           write api/golden
//	go run ./tools/apicheck -count .    print how many names each package exports
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

//go:generate go run . ../..

func main() {
	count := flag.Bool("count", false, "print the number of exported names, write nothing")
	flag.Parse()
	if err := run(flag.Args(), *count, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "apicheck: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, count bool, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("got %d arguments; want one, the root folder", len(args))
	}
	packages, err := load(args[0])
	if err != nil {
		return err
	}
	if count {
		total := 0
		for _, p := range packages {
			total += p.names
			fmt.Fprintf(out, "%5d %s\n", p.names, p.path)
		}
		fmt.Fprintf(out, "%5d total\n", total)
		return nil
	}
	folder := filepath.Join(args[0], filepath.FromSlash(golden))
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for _, p := range packages {
		name := filepath.Join(folder, filepath.FromSlash(p.path)+".txt")
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(p.text()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
