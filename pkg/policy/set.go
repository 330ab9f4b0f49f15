package policy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"

	"github.com/dra-steward/dra-steward/policies"
)

// A Collection has policies under one name. Of several that have a policy with the same
// code, the last one counts.
type Collection struct {
	// Name is the origin of the files in messages.
	Name string
	// Files hold the modules (*.rego) with their tests (*_test.rego), in any folders.
	Files fs.FS
}

// Library is the source that ships with dra-steward.
func Library() Collection { return Collection{Name: "library", Files: policies.Files} }

// A Set is a number of policies that belong together. It does not change; several
// goroutines may use it.
type Set struct {
	policies []Metadata
	revision string
	modules  map[string]*ast.Module
	tests    map[string]*ast.Module
	texts    map[string][]byte
	compiler *ast.Compiler
	defaults map[string]map[string]any
}

// Policies are in the order of their codes.
func (s *Set) Policies() []Metadata { return s.policies }

// Revision identifies the content of the set.
func (s *Set) Revision() string { return s.revision }

// Policy returns the policy with a code.
func (s *Set) Policy(code string) (Metadata, bool) {
	i, found := slices.BinarySearchFunc(s.policies, code, func(m Metadata, code string) int { return cmp.Compare(m.Code, code) })
	if !found {
		return Metadata{}, false
	}
	return s.policies[i], true
}

// Compile makes a set of all sources, runs the tests that come with them and refuses
// a set of which anything is wrong. The error names every place.
func Compile(ctx context.Context, sources ...Collection) (*Set, error) {
	s, err := Parse(ctx, sources...)
	if err != nil {
		return nil, err
	}
	report, err := s.Test(ctx, nil)
	if err != nil {
		return nil, err
	}
	return s, report.Err()
}

// Parse is Compile without running the tests.
func Parse(ctx context.Context, sources ...Collection) (*Set, error) {
	read, err := readAll(sources)
	if err != nil {
		return nil, err
	}
	s := &Set{modules: read.modules, tests: read.tests, texts: read.texts, revision: read.revision()}
	for _, code := range slices.Sorted(maps.Keys(read.policies)) {
		s.policies = append(s.policies, read.policies[code])
	}
	if s.defaults, err = parameterDefaults(s.policies); err != nil {
		return nil, err
	}
	if err := errors.Join(checkMembership(s.modules), checkFormats(s.modules), checkFormats(s.tests)); err != nil {
		return nil, err
	}
	if s.compiler, err = newCompiler(s.policies); err != nil {
		return nil, err
	}
	if s.compiler.Compile(s.modules); s.compiler.Failed() {
		return nil, s.compiler.Errors
	}
	if err := s.checkRules(); err != nil {
		return nil, err
	}
	return s, nil
}

// newCompiler makes a compiler that knows the input, refuses what is not pure, and is
// strict.
func newCompiler(policies []Metadata) (*ast.Compiler, error) {
	schema, err := inputSchema(policies)
	if err != nil {
		return nil, err
	}
	// Only at this place is the schema in force for every module.
	schemas := ast.NewSchemaSet()
	schemas.Put(ast.SchemaRootRef, schema)
	return ast.NewCompiler().WithCapabilities(capabilities()).WithStrict(true).
		WithSchemas(schemas).WithUseTypeCheckAnnotations(true), nil
}

// inputSchema is the published schema with the parameters of the policies in it.
func inputSchema(all []Metadata) (map[string]any, error) {
	var schema map[string]any
	if err := json.Unmarshal(policies.InputSchema, &schema); err != nil {
		return nil, fmt.Errorf("policies/input.schema.json: %w", err)
	}
	properties := map[string]any{}
	for _, policy := range all {
		if policy.Parameters != nil {
			properties[policy.Code] = policy.Parameters
		}
	}
	fields, ok := schema["properties"].(map[string]any)
	if !ok {
		return nil, errors.New("policies/input.schema.json: has no properties")
	}
	fields["parameters"] = map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	return schema, nil
}

// content is what the sources hold.
type content struct {
	modules, tests map[string]*ast.Module
	policies       map[string]Metadata
	texts          map[string][]byte
}

// revision is the fingerprint of all texts.
func (c content) revision() string {
	hash := sha256.New()
	for _, file := range slices.Sorted(maps.Keys(c.texts)) {
		fmt.Fprintf(hash, "%q %q\n", file, c.texts[file])
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

func readAll(sources []Collection) (content, error) {
	all := content{map[string]*ast.Module{}, map[string]*ast.Module{}, map[string]Metadata{}, map[string][]byte{}}
	var errs []error
	for _, source := range sources {
		errs = append(errs, all.read(source))
	}
	return all, errors.Join(errs...)
}

// read adds a source. A policy replaces an earlier one of the same code, with its
// tests.
func (c content) read(source Collection) error {
	added := content{map[string]*ast.Module{}, map[string]*ast.Module{}, map[string]Metadata{}, map[string][]byte{}}
	var errs []error
	err := fs.WalkDir(source.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir // a mounted ConfigMap has its files in ..2026_11_27_… too
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".rego") {
			return err
		}
		text, err := fs.ReadFile(source.Files, path)
		if err == nil {
			errs = append(errs, added.parse(source.Name+"/"+path, text))
		}
		return err
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	for code, policy := range added.policies {
		if old, replaced := c.policies[code]; replaced {
			c.remove(old.Package)
		}
		c.policies[code] = policy
	}
	maps.Copy(c.modules, added.modules)
	maps.Copy(c.tests, added.tests)
	maps.Copy(c.texts, added.texts)
	return nil
}

// remove takes out the modules and tests of a package.
func (c content) remove(path string) {
	for _, modules := range []map[string]*ast.Module{c.modules, c.tests} {
		for file, module := range modules {
			if at := strings.TrimPrefix(module.Package.Path.String(), "data."); at == path || at == path+"_test" {
				delete(modules, file)
				delete(c.texts, file)
			}
		}
	}
}

// parse reads one module.
func (c content) parse(file string, text []byte) error {
	module, err := ast.ParseModuleWithOpts(file, string(text), ast.ParserOptions{
		ProcessAnnotation: true, Capabilities: capabilities(), RegoVersion: ast.RegoV1,
	})
	if err != nil {
		return err
	}
	if module == nil {
		return at(ast.NewLocation(nil, file, 1, 1), "is empty")
	}
	c.texts[file] = text
	if strings.HasSuffix(file, "_test.rego") {
		c.tests[file] = module
		return nil
	}
	policy, err := metadata(file, module)
	if err != nil {
		return err
	}
	c.modules[file] = module
	if policy == nil {
		return nil
	}
	if other, twice := c.policies[policy.Code]; twice {
		return at(module.Package.Loc(), "the code %s already belongs to %s", policy.Code, other.File)
	}
	c.policies[policy.Code] = *policy
	return nil
}

// checkRules makes sure that every policy can object, and in one form only.
func (s *Set) checkRules() error {
	var errs []error
	for _, policy := range s.policies {
		ref := ast.MustParseRef("data." + policy.Package + ".deny")
		rules := s.compiler.GetRulesExact(ref)
		if len(rules) == 0 {
			errs = append(errs, at(s.modules[policy.File].Package.Loc(), "package %s has no rule \"deny contains … if\"", policy.Package))
		}
		for _, rule := range rules {
			if rule.Head.DocKind() != ast.PartialSetDoc {
				errs = append(errs, at(rule.Loc(), "deny must be a set of violations: \"deny contains violation if\""))
			}
		}
	}
	return errors.Join(errs...)
}

// maxBundle bounds what a bundle holds once it is unpacked.
const maxBundle = 32 << 20

// Bundle reads a bundle of OPA, a gzipped tarball as "opa build" writes it. Data in it is an
// error: policies see only their input. Signatures are not verified, and nothing is written.
func Bundle(r io.Reader) (fs.FS, error) {
	read, err := bundle.NewReader(r).WithSkipBundleVerification(true).WithProcessAnnotations(true).
		WithCapabilities(capabilities()).WithSizeLimitBytes(maxBundle).Read()
	if err != nil {
		return nil, err
	}
	if len(read.Data) > 0 {
		return nil, fmt.Errorf("the bundle has data; policies see their input alone: make parameters of them")
	}
	files := fstest.MapFS{}
	for _, module := range read.Modules {
		name := strings.TrimPrefix(module.Path, "/")
		if !fs.ValidPath(name) {
			return nil, fmt.Errorf("%q: the path of a file in a bundle must not leave the bundle", module.Path)
		}
		files[name] = &fstest.MapFile{Data: module.Raw}
	}
	return files, nil
}
