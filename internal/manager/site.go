package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterdata"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/controllers/extendedclaims"
	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// claimTime is how long the selectors of one claim are evaluated at most.
const claimTime = 5 * time.Second

// A site is the configuration and the policies of the webhook, for a controller that checks what
// is stored. A configuration or policy that the webhook refuses is refused here, too.
type site struct {
	path        string
	log         logr.Logger
	clusterView view
	clusterData clusterdata.Data
	policies    *policyload.ConfigMaps

	inForce atomic.Pointer[review.Reviewer]
	// mutex guards the fields below.
	mutex   sync.Mutex
	file    config.File
	files   policyload.Files
	refused string
	// tried is the revision of the file when it was last read.
	tried string
}

// newSite reads the configuration file and compiles the library. A file that is refused stops no
// other controller: it is read again when it changes. The metrics are not served: those of the
// webhook are.
func newSite(ctx context.Context, o Options, e *eviction, log logr.Logger) (*site, error) {
	unserved := prometheus.NewRegistry()
	counts, err := clusterdata.NewMetrics(unserved)
	if err != nil {
		return nil, err
	}
	namespaces, err := clusterdata.NewNamespaces(e.quiet, counts, log)
	if err != nil {
		return nil, err
	}
	s := &site{path: o.config, log: log, clusterView: view{e.evictor.Tracker}, clusterData: clusterdata.Data{Namespaces: namespaces, TaintKeys: clusterdata.NewTaintKeys(e.evictor.Tracker)}}
	sources, err := policyload.Sources(nil)
	if err != nil {
		return nil, err
	}
	if s.files.Set, err = policyload.Compile(ctx, sources); err != nil {
		return nil, err
	}
	s.reload()
	if o.policyNamespace == "" {
		return s, nil
	}
	metrics, err := policyload.NewMetrics(unserved)
	if err != nil {
		return nil, err
	}
	s.policies, err = policyload.NewConfigMaps(&policyload.ConfigMaps{Namespace: o.policyNamespace, Sources: sources, Use: s.usePolicies, Log: log, Metrics: metrics}, o.kubeconfig)
	return s, err
}

// run follows the file, the policies and the namespaces until ctx ends.
func (s *site) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.clusterData.Namespaces.Run(ctx) })
	if s.policies != nil {
		running.Go(func() { _ = s.policies.Run(ctx) }) // it returns nil
	}
	if s.path != "" {
		config.Watch(ctx, s.path, s.reload, func(err error) { s.log.Error(err, "cannot watch the configuration; polling it", "file", s.path) })
	}
}

// ready is nil once the configuration, namespaces, slices and policies have been read.
func (s *site) ready() error {
	if s.inForce.Load() == nil {
		return errors.New("no valid configuration has been read")
	}
	if err := s.clusterData.Namespaces.Ready(); err != nil {
		return err
	}
	if s.policies != nil {
		if err := s.policies.Ready(nil); err != nil {
			return err
		}
	}
	return s.clusterView.tracked.Ready()
}

// use puts a file into force, with policies and schemas.
func (s *site) use(file config.File, files policyload.Files) error {
	reviewer, err := policyload.NewReviewer(file, files, 0)
	if err != nil {
		return err
	}
	reviewer.InCluster, reviewer.ClusterView, reviewer.ClusterData, reviewer.SelectorTime = true, s.clusterView, s.clusterData, claimTime
	s.file, s.files = file, files
	s.inForce.Store(&reviewer)
	return nil
}

// usePolicies puts other policies and schemas into force, with the configuration in force or
// with a newer file.
func (s *site) usePolicies(files policyload.Files, _ time.Time) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	file, err := config.Load(s.path)
	if err == nil && (file.Revision != s.file.Revision || s.inForce.Load() == nil) {
		if err = s.use(file, files); err == nil {
			s.refused = ""
			return nil
		}
	}
	if s.inForce.Load() == nil {
		return err
	}
	return s.use(s.file, files)
}

// reload reads the file and takes it over if it has changed.
func (s *site) reload() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	file, err := config.Load(s.path)
	if err == nil {
		if file.Revision != s.file.Revision || s.inForce.Load() == nil {
			err = s.use(file, s.files)
		}
		if s.policies != nil && file.Revision != s.tried {
			s.policies.Again() // they may have been refused because of the previous file, or be what this one waits for
		}
		s.tried = file.Revision
	}
	switch {
	case err == nil:
		s.refused = ""
	case s.refused != err.Error():
		s.refused = err.Error()
		s.log.Error(err, "refused the configuration; the last valid one stays in force", "file", s.path)
	}
}

// check returns why a claim is refused, as if a user without exemptions created it now.
func (s *site) check(ctx context.Context, claim *resourceapi.ResourceClaim) ([]extendedclaims.Refusal, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	created := claim.DeepCopy()
	created.APIVersion, created.Kind, created.Status = resourceapi.SchemeGroupVersion.String(), "ResourceClaim", resourceapi.ResourceClaimStatus{}
	object, err := json.Marshal(created)
	if err != nil {
		return nil, err
	}
	answer, err := s.inForce.Load().Validate(review.Request{Context: ctx, Kind: created.GroupVersionKind(), Object: object, Namespace: claim.Namespace, Now: time.Now()})
	if err != nil {
		return nil, err
	}
	if err := answer.Decision.Err(); err != nil {
		return nil, fmt.Errorf("policies were not evaluated: %w", err)
	}
	var refusals []extendedclaims.Refusal
	for _, f := range answer.Findings {
		if f.Severity != validate.Error {
			continue
		}
		text := f.Message
		if f.Path != "" {
			text = f.Path + ": " + text
		}
		refusals = append(refusals, extendedclaims.Refusal{Code: f.Rule, Text: text})
	}
	return refusals, nil
}

// A view is what rules and policies about claims see of the cluster.
type view struct{ tracked *tracker.Tracker }

var _ validate.ClusterView = view{}

func (v view) Class(name string) *resourceapi.DeviceClass { return v.tracked.Snapshot().Class(name) }

func (v view) Classes() iter.Seq[*resourceapi.DeviceClass] { return v.tracked.Snapshot().Classes() }

func (v view) Pool(driver, name string) []*resourceapi.ResourceSlice {
	return v.tracked.Snapshot().PublishedByPool(driver, name)
}

func (v view) Slices() iter.Seq[*resourceapi.ResourceSlice] {
	return v.tracked.Snapshot().PublishedSlices()
}

// Patches returns none: only rules about patches read them.
func (view) Patches() iter.Seq[*v1alpha1.ResourceSlicePatch] {
	return func(func(*v1alpha1.ResourceSlicePatch) bool) {}
}

// Claims returns none, as in the webhook.
func (view) Claims() iter.Seq[*resourceapi.ResourceClaim] {
	return func(func(*resourceapi.ResourceClaim) bool) {}
}
