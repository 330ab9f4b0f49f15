package lint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/existing"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/parameters"
	"github.com/dra-steward/dra-steward/internal/rules/mode"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// ConfigurationFile is the name of the file that a repository keeps its
// configuration in.
const ConfigurationFile = ".dra-steward.yaml"

// evaluationTime is how long the selectors of one document are evaluated on the devices
// that exist, so that no file makes lint stop.
const evaluationTime = time.Second

// A Site is what was decided for some files.
type Site struct {
	reviewer review.Reviewer
	// folder is where the configuration file lies; skipPaths are seen from there.
	folder               string
	skipPaths, skipRules []string
}

// minor returns the minor of Kubernetes that the site is checked for.
func (s *Site) minor() int { return s.reviewer.Profile.EffectiveMinor() }

// skips reports whether the site does not want the file to be looked at. A pattern stands
// for a file or for a folder with all that is below it.
func (s *Site) skips(file string) bool {
	if len(s.skipPaths) == 0 || file == manifest.Stdin {
		return false
	}
	name, err := filepath.Abs(file)
	if err == nil {
		name, err = filepath.Rel(s.folder, name)
	}
	if err != nil {
		return false
	}
	for name = filepath.ToSlash(name); name != "." && name != "/"; name = path.Dir(name) {
		if slices.ContainsFunc(s.skipPaths, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }) {
			return true
		}
	}
	return false
}

// Sites finds the site of a file. It is not for several goroutines at once.
type Sites struct {
	// File is the configuration file for all; nil looks for one, file by file, from the
	// file's folder upwards to the root of its repository. An empty name means no file.
	File *string
	// KubernetesVersion and FeatureGates outrank those of configuration files.
	KubernetesVersion string
	FeatureGates      map[string]bool
	// Existing has the other objects that rules and policies see; nil means none.
	Existing *existing.Objects
	// Schemas are folders with schemas of opaque parameters, in addition to those of
	// configuration files.
	Schemas []fs.FS
	// Policies are evaluated as well, as configuration files set; nil means none.
	Policies *policy.Set
	// Book is the rules that configuration files may name.
	Book rulebook.Book

	// sites are by configuration file, files are the configuration files by folder.
	sites map[string]*Site
	files map[string]string
}

// For returns the site of a file.
func (s *Sites) For(file string) (*Site, error) {
	if s.File != nil {
		return s.load(*s.File)
	}
	folder := "."
	if file != manifest.Stdin {
		folder = filepath.Dir(file)
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	found, known := s.files[folder]
	if !known {
		if found, err = upwards(folder); err != nil {
			return nil, err
		}
		if s.files == nil {
			s.files = map[string]string{}
		}
		s.files[folder] = found
	}
	return s.load(found)
}

// Check reads the configuration file that is named for all, and refuses gates that do not
// exist in the version, and invalid schemas.
func (s *Sites) Check() error {
	if s.File != nil {
		_, err := s.load(*s.File)
		return err
	}
	_, err := profile(s.KubernetesVersion, s.FeatureGates)
	_, schemaErr := parameters.Site(v1alpha1.StewardConfiguration{}, s.Schemas...)
	return errors.Join(err, schemaErr)
}

// upwards looks for the configuration file from folder to the root of its repository, and
// returns "" without one.
func upwards(folder string) (string, error) {
	for {
		file := filepath.Join(folder, ConfigurationFile)
		info, err := os.Stat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err == nil && !info.Mode().IsRegular(): // such as a link to a device that never ends
			return "", fmt.Errorf("%s: not a regular file", file)
		default:
			return file, err
		}
		_, err = os.Stat(filepath.Join(folder, ".git"))
		parent := filepath.Dir(folder)
		if err == nil || parent == folder {
			return "", nil
		}
		folder = parent
	}
}

// load reads a configuration file once; an empty name stands for none.
func (s *Sites) load(file string) (*Site, error) {
	if site, ok := s.sites[file]; ok {
		return site, nil
	}
	c, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	site, err := s.Site(c)
	if err != nil {
		return nil, err
	}
	site.folder, err = filepath.Abs(filepath.Dir(file))
	if s.sites == nil {
		s.sites = map[string]*Site{}
	}
	s.sites[file] = site
	return site, err
}

// Site is what a configuration decides, or everything that is wrong with it, each with
// its place.
func (s *Sites) Site(file config.File) (*Site, error) {
	site, err := s.site(file.StewardConfiguration)
	return site, file.Locate(err)
}

func (s *Sites) site(c v1alpha1.StewardConfiguration) (*Site, error) {
	if err := mode.Check(c.Mode); err != nil {
		return nil, err
	}
	// How strict a cluster is by now says nothing about what is wrong with a manifest.
	c.Mode = v1alpha1.ModeDefault
	reviewer, err := review.New(c)
	if err != nil {
		return nil, err
	}
	if s.Existing != nil {
		reviewer.ClusterView, reviewer.ClusterData = s.Existing, s.Existing
	}
	if s.Policies != nil {
		settings, err := review.PolicySettings(c)
		if err != nil {
			return nil, err
		}
		if reviewer.Policies, err = policy.NewEngine(s.Policies, settings); err != nil {
			return nil, err
		}
	}
	reviewer.Evaluations = &validate.Evaluations{}
	reviewer.SelectorTime = evaluationTime
	if len(s.Schemas) > 0 {
		if reviewer.Parameters, err = parameters.Site(c, s.Schemas...); err != nil {
			return nil, err
		}
	}
	gates := maps.Clone(c.Lint.FeatureGates)
	if gates == nil {
		gates = map[string]bool{}
	}
	maps.Copy(gates, s.FeatureGates)
	reviewer.Profile, err = profile(cmp.Or(s.KubernetesVersion, c.Lint.KubernetesVersion), gates)
	if err != nil {
		return nil, err
	}
	if err := (Selection{Skip: c.Lint.SkipRules}).Check(s.Book); err != nil {
		return nil, field.Invalid(field.NewPath("lint", "skipRules"), field.OmitValueType{}, err.Error())
	}
	for i, pattern := range c.Lint.SkipPaths {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, field.Invalid(field.NewPath("lint", "skipPaths").Index(i), pattern, err.Error())
		}
	}
	return &Site{reviewer: reviewer, skipPaths: c.Lint.SkipPaths, skipRules: c.Lint.SkipRules}, nil
}

// version is what "kubectl version" prints of a server.
var version = regexp.MustCompile(`^v?1\.(\d+)([.+-].*)?$`)

// profile returns the API server of a version, the newest if it is empty, with gates
// that differ from its defaults.
func profile(kubernetes string, gates map[string]bool) (p apiserver.Profile, err error) {
	if p.Next = kubernetes == Next; kubernetes != "" && !p.Next {
		match := version.FindStringSubmatch(kubernetes)
		if match == nil {
			return p, fmt.Errorf("kubernetes version %q: must be %s, with or without a patch version", kubernetes, oneOf(Minors()))
		}
		if p.Minor, err = strconv.Atoi(match[1]); err != nil || p.Minor == 0 {
			return p, fmt.Errorf("kubernetes version %q: must be %s", kubernetes, oneOf(Minors()))
		}
	}
	p.Gates = map[apiserver.Gate]bool{}
	for gate, on := range gates {
		p.Gates[apiserver.Gate(strings.TrimSpace(gate))] = on
	}
	return p, p.Validate()
}

// Next is the version of Kubernetes after the newest one, as far as it is merged.
const Next = "next"

// Minors are the versions of Kubernetes that lint can stand for.
func Minors() (names []string) {
	for minor := apiserver.OldestMinor; minor <= apiserver.NewestMinor; minor++ {
		names = append(names, fmt.Sprintf("1.%d", minor))
	}
	return append(names, Next)
}

// crossObjectKinds are the kinds of ours that other objects are checked by.
var crossObjectKinds = []string{"ResourceClaimTemplate", "DeviceClass", "ResourceSlice", "DeviceTaintRule", v1alpha1.ResourceSlicePatchKind, "ResourceClaim"}

// Existing reads what files have of a cluster: DeviceClasses, ResourceSlices, DeviceTaintRules, ResourceSlicePatches and
// ResourceClaims for the rules that look beyond one object, and Namespaces for their labels. What cannot be read is an
// error, since everything would look as if it were not there. Without files it is nil.
func Existing(reader manifest.Reader, files []string) (*existing.Objects, error) {
	if len(files) == 0 {
		return nil, nil
	}
	all := &existing.Objects{}
	for document, err := range reader.Walk(files...) {
		if err != nil {
			return nil, err
		}
		var object any
		var problems []manifest.Problem
		switch {
		case document.APIVersion == "v1" && document.Kind == "Namespace":
			object, problems = namespace(document)
		case !document.Ours() || !slices.Contains(crossObjectKinds, document.Kind):
			continue
		default:
			if decoded, all := manifest.Decode(document); decoded == nil {
				problems = all
			} else {
				object = decoded
			}
		}
		if object == nil {
			return nil, fmt.Errorf("%s:%d: %s %s: %v", document.File, document.Line, document.Kind, document.Name, problems[0])
		}
		all.Add(object)
		all.Added = append(all.Added, object)
	}
	return all, nil
}

// namespace decodes a Namespace. It has the label that API servers add to each.
func namespace(document *manifest.Document) (any, []manifest.Problem) {
	var n corev1.Namespace
	if err := json.Unmarshal(document.Raw, &n); err != nil {
		return nil, manifest.DecodeInto(document, &n)
	}
	metav1.SetMetaDataLabel(&n.ObjectMeta, corev1.LabelMetadataName, n.Name)
	return &n, nil
}
