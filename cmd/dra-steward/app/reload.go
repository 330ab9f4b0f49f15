package app

import (
	"cmp"
	"context"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"encoding/json"
	"net/http"

	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/policystatus"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/prometheus/client_golang/prometheus"
)

// A configured is the Reviewer that follows a configuration file: it is replaced as a
// whole when the file changes, and a file that is wrong leaves it as it is.
type configured struct {
	path string
	// complete adds to a Reviewer what no file holds.
	complete func(*review.Reviewer)
	// minor is that of the API server, for who does not configure it; 0 if it is not
	// known.
	minor   func() int
	log     logr.Logger
	metrics *configMetrics

	inForce atomic.Pointer[review.Reviewer]

	// turn is held by who changes what follows.
	turn sync.Mutex
	// set are the policies, nil for none.
	set *policy.Set
	// schemas are those of opaque parameters that ConfigMaps hold.
	schemas []fs.FS
	// policies are those of ConfigMaps; nil for none.
	policies *policyConfigMaps
	// guard counts what a write would hit, and knows what pods hold; nil where neither
	// guards nor deletions says that somebody asks.
	guard             *impacts
	guards, deletions bool
	// slices writes patches into slices; nil leaves them alone.
	slices review.Slices
	// file is the one in force.
	file config.File
	// seen is the revision in force; empty while the file is one that was refused.
	seen string
}

// reviewer returns the Reviewer in force.
func (c *configured) reviewer() review.Reviewer {
	reviewer := *c.inForce.Load()
	if c.guards {
		reviewer.Impacts = c.guard
	}
	reviewer.Slices = c.slices
	reviewer.Profile.Minor = cmp.Or(reviewer.Profile.Minor, c.minor())
	return reviewer
}

// start reads the file for the first time; an error is one of the file.
func (c *configured) start(now time.Time) error {
	file, err := config.Load(c.path)
	if err != nil {
		return err
	}
	return c.use(file, now)
}

// use puts a file into force, if nothing is wrong with it.
func (c *configured) use(file config.File, now time.Time) error {
	reviewer, err := review.New(file.StewardConfiguration)
	if err != nil {
		return file.Locate(err)
	}
	if reviewer.Policies, err = newPolicyEngine(c.set, file.StewardConfiguration); err != nil {
		return file.Locate(err)
	}
	if reviewer.GuardPolicies, err = newGuardEngine(c.set, file.StewardConfiguration); err != nil {
		return file.Locate(err)
	}
	if len(c.schemas) > 0 {
		if reviewer.Parameters, err = review.Parameters(file.StewardConfiguration, c.schemas...); err != nil {
			return file.Locate(err)
		}
	}
	c.complete(&reviewer)
	if c.policies != nil {
		reviewer.PoliciesSince = c.policies.status.inForceSince(reviewer.PolicyDigests())
	}
	c.file = file
	c.inForce.Store(&reviewer)
	c.seen = file.Revision
	c.metrics.loaded(file.Revision, now)
	for _, i := range reviewer.Expired(now) {
		c.log.Info("an exemption has expired and does not count: remove or renew it", "exemption", i, "reason", file.Exemptions[i].Reason)
	}
	return nil
}

// usePolicies puts other policies and schemas into force, all at once, if the
// configuration agrees with them.
func (c *configured) usePolicies(files siteFiles, now time.Time) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	set, schemas := c.set, c.schemas
	c.set, c.schemas = files.set, files.schemas
	err := c.use(c.file, now)
	if err != nil {
		c.set, c.schemas = set, schemas
	}
	return err
}

// agrees tells whether the configuration agrees with policies: with their parameters and
// the schemas of these.
func (c *configured) agrees(files siteFiles) error {
	c.turn.Lock()
	file := c.file
	c.turn.Unlock()
	if file.Name != "" {
		file.Name = filepath.Base(file.Name) // who writes a ConfigMap knows nothing of our folders
	}
	_, err := newPolicyEngine(files.set, file.StewardConfiguration)
	return file.Locate(err)
}

// run follows the file until ctx ends.
func (c *configured) run(ctx context.Context) error {
	if c.path == "" {
		return nil
	}
	config.Watch(ctx, c.path, c.look, func(err error) {
		c.log.Error(err, "cannot watch the configuration; it is looked at every few seconds", "file", c.path)
	})
	return nil
}

// look reads the file and takes it over if it has changed.
func (c *configured) look() {
	c.turn.Lock()
	defer c.turn.Unlock()
	file, err := config.Load(c.path)
	if err == nil && file.Revision == c.seen {
		return
	}
	if err == nil {
		err = c.use(file, time.Now())
	}
	if err == nil {
		c.log.Info("took over a new configuration", "file", c.path, "revision", file.Revision)
		return
	}
	c.seen = ""
	if c.metrics.refused(err) {
		c.log.Error(err, "refused a new configuration; the last good one stays in force", "file", c.path)
	}
}

// metricsHandler serves metrics, and what came of loading policies.
func (c *configured) metricsHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", metricsHandler(registry))
	if c.policies != nil {
		mux.HandleFunc("GET "+policystatus.Path, c.tellPolicies)
	}
	return mux
}

func (c *configured) tellPolicies(w http.ResponseWriter, _ *http.Request) {
	load := &c.policies.status
	load.mutex.Lock()
	said := policystatus.Load{Revision: load.revision, Since: load.since, Problems: load.problems}
	load.mutex.Unlock()
	said.Digests = c.reviewer().PolicyDigests()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(said) // who asks no longer needs no answer
}
