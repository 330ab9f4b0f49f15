// Package policyload loads policies from the library, folders, bundles and ConfigMaps, and
// makes engines of them.
package policyload

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"errors"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// Sources are the library and additional policies: folders with policies, or bundles of
// OPA.
func Sources(paths []string) ([]policy.Collection, error) {
	sources := []policy.Collection{policy.Library()}
	for _, path := range paths {
		files, err := policyFiles(path)
		if err != nil {
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
		if reviewer.Parameters, err = review.Parameters(file.StewardConfiguration, files.Schemas...); err != nil {
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
