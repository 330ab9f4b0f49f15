package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dra-steward/dra-steward/internal/config"
)

//go:generate go run . ../../charts/dra-steward

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "chartdoc: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want the folder of the chart, got %d arguments", len(args))
	}
	files, err := generate(args[0])
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(args[0], name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the files of the chart in dir as they should be.
func generate(dir string) (map[string][]byte, error) {
	text, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		return nil, err
	}
	old, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		return nil, err
	}
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	var configuration object
	if err := json.Unmarshal(config.Schema, &configuration); err != nil {
		return nil, err
	}
	known, err := knownNames()
	if err != nil {
		return nil, err
	}
	list, err := known.file()
	if err != nil {
		return nil, err
	}
	values, err := schema(root, configuration)
	if err != nil {
		return nil, err
	}
	page, err := readme(string(old), root, values)
	return map[string][]byte{"values.schema.json": values, "README.md": []byte(page), namesFile: list}, err
}
