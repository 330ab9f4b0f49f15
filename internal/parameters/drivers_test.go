package parameters_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/internal/parameters"
)

// TestDrivers: what each driver's own code says of parameters when it prepares a claim. The files have a line for each: accept,
// refuse or panic, and the parameters. They were recorded with the versions that the schemas name.
func TestDrivers(t *testing.T) {
	files, err := filepath.Glob("testdata/drivers/*.tsv")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		driver := strings.TrimSuffix(filepath.Base(file), ".tsv")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(driver, func(t *testing.T) { asDriver(t, driver, string(text)) })
	}
}

func asDriver(t *testing.T, driver, text string) {
	library := library(t)
	all, refused, silent := 0, 0, 0
	for line := range strings.Lines(text) {
		verdict, input, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		all++
		found := library.Check(field.NewPath("parameters"), driver, []byte(input))
		denied := slices.Concat(found.Unreadable, found.Values)
		switch warned := len(found.Kind)+len(found.Fields)+len(found.Choices) > 0; {
		case verdict == "accept" && len(denied) > 0:
			t.Errorf("the driver accepts %s, and it is denied: %v", input, denied)
		case verdict != "accept":
			refused++
			if len(denied) == 0 && !warned {
				silent++
				t.Logf("the driver refuses %s, and there is no word about it", input)
			}
		}
	}
	if all < 100 {
		t.Errorf("%d inputs, want 100", all)
	}
	if silent*100 > refused*2 {
		t.Errorf("no word about %d of %d inputs that the driver refuses, at most 2 %%", silent, refused)
	}
}

// TestVersions: each included schema says which release of the driver it was made from.
func TestVersions(t *testing.T) {
	library, err := parameters.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range library.Schemas() {
		if schema.Version == "" {
			t.Errorf("%s, %s: x-driver-version is missing", schema.Driver, schema.Kind)
		}
	}
}
