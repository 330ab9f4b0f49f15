package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/guard/impact"
	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/internal/rules/policyoutcome"
	"github.com/dra-steward/dra-steward/internal/serving/metric"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// A reloader is the Reviewer that follows a configuration file: it is replaced as a
// whole when the file changes, and a file that is wrong leaves it as it is.
type reloader struct {
	path string
	// complete adds to a Reviewer what no file holds.
	complete func(*review.Reviewer)
	// minor is that of the API server, used where none is configured; 0 if it is not
	// known.
	minor   func() int
	log     logr.Logger
	metrics *configMetrics
	// cacheBytes is the size of each cache of decisions; 0 is the default.
	cacheBytes int64

	inForce atomic.Pointer[review.Reviewer]

	// mutex guards the fields below.
	mutex sync.Mutex
	// files are the policies, and the schemas of opaque parameters that ConfigMaps hold.
	files policyload.Files
	// policies are those of ConfigMaps; nil for none.
	policies *policyload.ConfigMaps
	// guard counts what a write would hit, and knows what pods hold; nil where guards and
	// deletions are false.
	guard             *impact.Estimator
	guards, deletions bool
	// drivers knows the pods of drivers; nil where these are not checked.
	drivers webhook.DriverPods
	// authors remembers who publishes for a driver, whatever the configuration is.
	authors review.SliceAuthors
	// slices writes patches into slices; nil leaves them alone.
	slices review.Slices
	// patchWriter is the user who has them written.
	patchWriter string
	// file is the one in force.
	file config.File
	// seen is the revision in force; empty while the file is one that was refused.
	seen string
	// tried is the revision of the file when it was last read.
	tried string
}

// reviewer returns the Reviewer in force.
func (c *reloader) reviewer() review.Reviewer {
	reviewer := *c.inForce.Load()
	if c.guards {
		reviewer.Impacts = c.guard
	}
	reviewer.Slices, reviewer.SliceAuthors, reviewer.PatchWriter = c.slices, &c.authors, c.patchWriter
	reviewer.Profile.Minor = cmp.Or(reviewer.Profile.Minor, c.minor())
	return reviewer
}

// start reads the file for the first time; an error is one of the file.
func (c *reloader) start(now time.Time) error {
	file, err := config.Load(c.path)
	if err == nil {
		err = c.use(file, c.files)
	}
	if err == nil {
		c.took(now)
	}
	return err
}

// use puts a file into force, with policies and schemas, if nothing is wrong with them.
func (c *reloader) use(file config.File, files policyload.Files) error {
	reviewer, err := policyload.NewReviewer(file, files, c.cacheBytes)
	if err != nil {
		return err
	}
	if err := c.unknownPolicies(file, files.Set); err != nil {
		return err
	}
	if reviewer.GuardPolicies, err = policyload.NewGuardEngine(files.Set, file.StewardConfiguration, c.cacheBytes); err != nil {
		return file.Locate(err)
	}
	c.complete(&reviewer)
	if c.policies != nil {
		reviewer.PoliciesSince = c.policies.Status.InForceSince(reviewer.PolicyDigests())
	}
	c.file, c.files = file, files
	c.inForce.Store(&reviewer)
	return nil
}

// took says that the file in force is the one that there is.
func (c *reloader) took(now time.Time) {
	c.seen = c.file.Revision
	c.metrics.loaded(c.seen, now)
	for _, i := range c.inForce.Load().Expired(now) {
		c.log.Info("an exemption has expired and is ignored: remove or renew it", "exemption", i, "reason", c.file.Exemptions[i].Reason)
	}
}

// unknownPolicies refuses settings of policies that do not exist. Where ConfigMaps can add
// the policies later, they are logged instead.
func (c *reloader) unknownPolicies(file config.File, set *policy.Set) error {
	if set == nil {
		return nil
	}
	err := file.Locate(policyload.Check(set, file.StewardConfiguration, false))
	if err == nil || c.policies == nil {
		return err
	}
	c.log.Info("settings of policies have no effect until a ConfigMap adds the policies", "settings", err.Error())
	return nil
}

// usePolicies puts other policies and schemas into force, all at once, if the configuration
// agrees with them: the one in force, or a newer file, which comes into force with them.
func (c *reloader) usePolicies(files policyload.Files, now time.Time) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	file, err := config.Load(c.path)
	if err == nil && (file.Revision != c.file.Revision || c.inForce.Load() == nil) {
		if err = c.use(file, files); err == nil {
			c.took(now)
			c.log.Info("loaded a new configuration, together with policies", "file", c.path, "revision", file.Revision)
			return nil
		}
	}
	if c.inForce.Load() == nil {
		return err
	}
	return c.use(c.file, files)
}

// agrees reports whether a configuration agrees with policies: with their parameters and the
// schemas of these. It is the one in force, or a newer file that waits for these policies.
func (c *reloader) agrees(files policyload.Files) error {
	c.mutex.Lock()
	inForce := c.file
	c.mutex.Unlock()
	err := agree(inForce, files)
	if err == nil {
		return nil
	}
	if file, unread := config.Load(c.path); unread == nil && file.Revision != inForce.Revision && agree(file, files) == nil {
		return nil
	}
	return err
}

func agree(file config.File, files policyload.Files) error {
	if file.Name != "" {
		file.Name = filepath.Base(file.Name) // the author of a ConfigMap does not know our folders
	}
	if _, err := policyload.NewReviewer(file, files, -1); err != nil {
		return err
	}
	_, err := policyload.NewGuardEngine(files.Set, file.StewardConfiguration, -1)
	return file.Locate(err)
}

// run follows the file until ctx ends.
func (c *reloader) run(ctx context.Context) error {
	if c.path == "" {
		return nil
	}
	config.Watch(ctx, c.path, c.reload, func(err error) {
		c.log.Error(err, "cannot watch the configuration; polling it", "file", c.path)
	})
	return nil
}

// reload reads the file and takes it over if it has changed.
func (c *reloader) reload() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	file, err := config.Load(c.path)
	if err == nil && file.Revision == c.seen {
		return
	}
	if err == nil {
		err = c.use(file, c.files)
		if c.policies != nil && file.Revision != c.tried {
			c.policies.Again() // they may have been refused because of the previous file, or be what this one waits for
		}
		c.tried = file.Revision
	}
	if err == nil {
		c.took(time.Now())
		c.log.Info("loaded a new configuration", "file", c.path, "revision", file.Revision)
		return
	}
	c.seen = ""
	if c.metrics.refused(err) {
		c.log.Error(err, "refused a new configuration; the last valid one stays in force", "file", c.path)
	}
}

// metricsHandler serves metrics, and to every caller the state of the policies: the controller
// reads it, and sends no token to an address that it cannot verify.
func (c *reloader) metricsHandler(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", metrics)
	if c.policies != nil {
		mux.HandleFunc("GET "+policyoutcome.Path, c.tellPolicies)
	}
	return mux
}

func (c *reloader) tellPolicies(w http.ResponseWriter, r *http.Request) {
	if err := c.policies.Ready(r); err != nil { // those of the library alone would end the time since which the others are in force
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	load := &c.policies.Status
	load.Mutex.Lock()
	said := policyoutcome.Load{Revision: load.Revision, Since: load.Since, Problems: load.Problems}
	load.Mutex.Unlock()
	said.Digests = c.reviewer().PolicyDigests()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(said) // who asks no longer needs no answer
}

// configMetrics tell which configuration is in force.
type configMetrics struct {
	failed  prometheus.Gauge
	loads   *prometheus.CounterVec
	success prometheus.Gauge
	info    *prometheus.GaugeVec

	// said is the error that was logged last.
	said string
}

// NewConfigMetrics registers the metrics; reviewer returns the one in force.
func NewConfigMetrics(registerer prometheus.Registerer, reviewer func() review.Reviewer) (*configMetrics, error) {
	all := metric.For(registerer)
	m := &configMetrics{
		failed: all.Gauge("dra_steward_config_load_failed",
			"1 while the present configuration file is refused; the last valid one is in force."),
		loads: all.Counters("dra_steward_config_loads_total",
			"Configuration files read, by result (success, failure).", "result"),
		success: all.Gauge("dra_steward_config_last_success_timestamp_seconds",
			"When the configuration in force was read."),
		info: all.Gauges("dra_steward_config_info",
			"1 for the revision of the configuration in force, the first digits of its SHA-256; empty without a file.", "revision"),
	}
	all.GaugeFunc("dra_steward_config_exemptions_expired", "Expired exemptions of the configuration in force.",
		func() float64 { return float64(len(reviewer().Expired(time.Now()))) })
	all.GaugeFunc("dra_steward_config_next_exemption_expiry_timestamp_seconds",
		"When the first exemption of the configuration in force expires; 0 without one.",
		func() float64 {
			if next := reviewer().NextExpiry(time.Now()); !next.IsZero() {
				return float64(next.Unix())
			}
			return 0
		})
	return m, all.Err()
}

func (m *configMetrics) loaded(revision string, at time.Time) {
	m.failed.Set(0)
	m.loads.WithLabelValues("success").Inc()
	m.success.Set(float64(at.Unix()))
	m.info.Reset()
	m.info.WithLabelValues(revision).Set(1)
	m.said = ""
}

// refused reports whether it is the first time since a good configuration that err is why.
func (m *configMetrics) refused(err error) (first bool) {
	if err.Error() == m.said {
		return false
	}
	m.said = err.Error()
	m.failed.Set(1)
	m.loads.WithLabelValues("failure").Inc()
	return true
}
