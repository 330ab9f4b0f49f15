// Package policyload loads policies from the library, folders, bundles and ConfigMaps, and
// makes engines of them.
package policyload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/parameters"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// Sources are the library and additional policies: folders with policies, without hidden ones below
// them, or bundles of OPA.
func Sources(paths []string) ([]policy.Collection, error) {
	sources := []policy.Collection{policy.Library()}
	for _, path := range paths {
		files, err := policyFiles(path)
		if err != nil {
			return nil, fmt.Errorf("--policies %s: %w", path, err)
		}
		if err := hasPolicies(files); err != nil {
			return nil, fmt.Errorf("--policies %s: %w", path, err)
		}
		sources = append(sources, policy.Collection{Name: path, Files: files})
	}
	return sources, nil
}

func policyFiles(path string) (fs.FS, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return os.DirFS(path), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return policy.Bundle(file)
}

// hasPolicies returns an error if no file is a policy, as in a folder that is not the one that is meant.
func hasPolicies(files fs.FS) error {
	found := false
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if found = err == nil && strings.HasSuffix(path, ".rego"); found {
			return fs.SkipAll
		}
		return err
	})
	if err == nil && !found {
		return errors.New("there are no policies: no file ends in .rego")
	}
	return err
}

// Load compiles the library and additional policies.
func Load(ctx context.Context, paths []string) (*policy.Set, error) {
	sources, err := Sources(paths)
	if err != nil {
		return nil, err
	}
	return Compile(ctx, sources)
}

// Compile makes a set of the library and additional policies. The tests of the library run
// when it is built, those of others here.
func Compile(ctx context.Context, sources []policy.Collection) (*policy.Set, error) {
	if len(sources) == 1 {
		return policy.Parse(ctx, sources...)
	}
	return policy.Compile(ctx, sources...)
}

// NewReviewer returns a reviewer for a configuration with policies and schemas. An error names
// its place in the file. cacheBytes is that of [policy.Settings].
func NewReviewer(file config.File, files Files, cacheBytes int64) (review.Reviewer, error) {
	reviewer, err := review.New(file.StewardConfiguration)
	if err != nil {
		return reviewer, file.Locate(err)
	}
	if reviewer.Policies, err = NewEngine(files.Set, file.StewardConfiguration, cacheBytes); err != nil {
		return reviewer, file.Locate(err)
	}
	if len(files.Schemas) > 0 {
		if reviewer.Parameters, err = parameters.Site(file.StewardConfiguration, files.Schemas...); err != nil {
			return reviewer, file.Locate(err)
		}
	}
	return reviewer, nil
}

// NewEngine returns an engine for a set with the settings of a configuration; nil for no set.
// cacheBytes is that of [policy.Settings].
func NewEngine(set *policy.Set, c v1alpha1.StewardConfiguration, cacheBytes int64) (*policy.Engine, error) {
	if set == nil {
		return nil, nil
	}
	settings, err := review.PolicySettings(c)
	if err != nil {
		return nil, err
	}
	if err := Check(set, c, true); err != nil {
		return nil, err
	}
	settings.CacheBytes = cacheBytes
	engine, err := policy.NewEngine(set, settings)
	if err != nil {
		return nil, field.Invalid(field.NewPath("policies"), field.OmitValueType{}, err.Error())
	}
	return engine, nil
}

// NewGuardEngine returns an engine for the policies that read the impact of a write; nil for no
// set. cacheBytes is that of [policy.Settings].
func NewGuardEngine(set *policy.Set, c v1alpha1.StewardConfiguration, cacheBytes int64) (*policy.Engine, error) {
	if set == nil {
		return nil, nil
	}
	settings, err := review.GuardSettings(c)
	if err != nil {
		return nil, err
	}
	settings.CacheBytes = cacheBytes
	engine, err := policy.NewEngine(set, settings)
	if err != nil {
		return nil, errors.Join(errors.New("the policies of the guard"), err)
	}
	return engine, nil
}

// schemaSuffix is how the key of a JSON Schema ends.
const schemaSuffix = ".schema.json"

// Files are what ConfigMaps hold, with what comes from elsewhere: policies, and the
// schemas of opaque parameters. They come into force together.
type Files struct {
	Set *policy.Set
	// Schemas are folders of one file; of two for one kind the later one counts.
	Schemas []fs.FS
	hash    []byte
}

// addSchema adds a file that is no policy; file is its place for messages.
func (f *Files) addSchema(file, name, text string) error {
	if !strings.HasSuffix(name, schemaSuffix) {
		return policy.Problem{File: file, Message: "a key must be <name>.rego for a policy, <name>_test.rego for its tests, or <name>" + schemaSuffix + " for the parameters of a driver"}
	}
	if err := new(parameters.Library).Clone().Add([]byte(text)); err != nil {
		problem := policy.Problem{File: file, Message: "no schema of parameters: " + err.Error()}
		if syntax := (*json.SyntaxError)(nil); errors.As(json.Unmarshal([]byte(text), new(any)), &syntax) {
			before := text[:min(int(syntax.Offset), len(text))]
			problem.Line, problem.Column = 1+strings.Count(before, "\n"), max(1, len(before)-strings.LastIndex(before, "\n")-1)
			problem.Message = "no JSON: " + syntax.Error()
		}
		return problem
	}
	f.Schemas = append(f.Schemas, fstest.MapFS{name: {Data: []byte(text)}})
	sum := sha256.Sum256(fmt.Appendf(f.hash, "%q %q\n", file, text))
	f.hash = sum[:]
	return nil
}

// revision identifies the content.
func (f Files) revision() string {
	if len(f.Schemas) == 0 {
		return f.Set.Revision()
	}
	sum := sha256.Sum256(append([]byte(f.Set.Revision()), f.hash...))
	return hex.EncodeToString(sum[:])[:16]
}
