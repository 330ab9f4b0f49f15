// Set writes the version of the chart into the go.mod of every module that requires
// another one of this tree. `replace` lines lead to the folders here; who requires a module
// from a proxy gets that version.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/tools/modules"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "set the versions of the modules:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	data, err := os.ReadFile(filepath.Join(root, "charts/dra-steward/Chart.yaml"))
	if err != nil {
		return err
	}
	var chart struct{ AppVersion string }
	if err := yaml.Unmarshal(data, &chart); err != nil {
		return err
	}
	files, err := modules.Files(root)
	if err != nil {
		return err
	}
	for _, name := range files {
		name = filepath.Join(root, name)
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if data, err = modules.Set(data, "v"+chart.AppVersion); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
