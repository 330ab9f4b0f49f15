// Package gates finds out which feature gates kube-scheduler's allocator of devices uses.
package gates

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// Gates are those of kube-scheduler, as far as they are known.
type Gates struct {
	// Features are what the allocator uses.
	Features structured.Features
	// Source is where they were read.
	Source string
	// Read is true if a component of the cluster has reported them.
	Read bool
}

// Used is what an answer says about the gates that it used.
type Used struct {
	// Source is where they come from.
	Source string `json:"source"`
	// Enabled are the names of the gates that are on.
	Enabled []string `json:"enabled"`
	// Read is true if a component of the cluster has reported them.
	Read bool `json:"read"`
}

// Used describes the gates.
func (g Gates) Used() Used { return Used{Source: g.Source, Enabled: g.Enabled(), Read: g.Read} }

// feature has the gates that an allocator's feature needs, and its place.
type feature struct {
	gates []string
	field func(*structured.Features) *bool
}

// features are all that the allocator has.
func features() []feature {
	type f = structured.Features
	return []feature{
		{[]string{"DRAAdminAccess"}, func(f *f) *bool { return &f.AdminAccess }},
		{[]string{"DRADeviceCompatibilityGroups"}, func(f *f) *bool { return &f.CompatibilityGroups }},
		{[]string{"DRAConsumableCapacity"}, func(f *f) *bool { return &f.ConsumableCapacity }},
		{[]string{"DRADerivedAttributes"}, func(f *f) *bool { return &f.DerivedAttributes }},
		{[]string{"DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"}, func(f *f) *bool { return &f.DeviceBindingAndStatus }},
		{[]string{"DRADeviceTaints"}, func(f *f) *bool { return &f.DeviceTaints }},
		{[]string{"DRAFractionalCapacityRange"}, func(f *f) *bool { return &f.FractionalCapacityRange }},
		{[]string{"DRAListTypeAttributes"}, func(f *f) *bool { return &f.ListTypeAttributes }},
		{[]string{"DRAOptionalNodeOperations"}, func(f *f) *bool { return &f.OptionalNodeOperations }},
		{[]string{"DRAPartitionableDevices"}, func(f *f) *bool { return &f.PartitionableDevices }},
		{[]string{"DRAPrioritizedList"}, func(f *f) *bool { return &f.PrioritizedList }},
	}
}

// Enabled are the names of the gates of the features that are on, sorted.
func (g Gates) Enabled() (names []string) {
	for _, f := range features() {
		if *f.field(&g.Features) {
			names = append(names, f.gates...)
		}
	}
	slices.Sort(names)
	return names
}

// Defaults are the gates that a minor version of Kubernetes 1 has by default; 0 is the
// newest that is supported. A minor that is not supported counts as the nearest.
func Defaults(minor int) Gates {
	g, profile := Gates{}, profileOf(minor)
	for _, f := range features() {
		*f.field(&g.Features) = !slices.ContainsFunc(f.gates, func(gate string) bool { return !profile.Enabled(apiserver.Gate(gate)) })
	}
	g.Source = fmt.Sprintf("the defaults of Kubernetes 1.%d", profile.EffectiveMinor())
	return g
}

// With returns the gates that a component of a minor version reports. One that it does not
// report does not exist there yet, or no longer, and counts as in the defaults.
func With(reported map[string]bool, minor int, source string) Gates {
	g := Gates{Source: source, Read: true}
	defaults := profileOf(minor)
	for _, f := range features() {
		*f.field(&g.Features) = !slices.ContainsFunc(f.gates, func(gate string) bool {
			on, known := reported[gate]
			return !on && (known || !defaults.Enabled(apiserver.Gate(gate)))
		})
	}
	return g
}

func profileOf(minor int) apiserver.Profile {
	if minor == 0 {
		return apiserver.Profile{}
	}
	return apiserver.Profile{Minor: min(max(minor, apiserver.OldestMinor), apiserver.NewestMinor)}
}

const (
	// family is the metric of all components of Kubernetes, one sample for each gate.
	family = "kubernetes_feature_enabled"
	// build is the metric with the version of a component, which comes before that family.
	build = "kubernetes_build_info"
	// maxBytes is how much of an answer is read, maxLines how many lines of the family,
	// maxLine the length of one.
	maxBytes = 256 << 20
	maxLines = 4096
	maxLine  = 4096
)

// ErrNone says that an answer has no gates.
var ErrNone = errors.New("no metric " + family)

// Reported is what a component says of itself in its metrics.
type Reported struct {
	// Gates are its feature gates.
	Gates map[string]bool
	// Version is the one that it was built as, such as v1.37.1; empty if it does not say.
	Version string
}

// Parse reads what a component reports in its metrics. It reads only as far as the metric of
// the gates.
func Parse(from io.Reader) (Reported, error) {
	lines, err := cut(from)
	if err != nil {
		return Reported{}, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(lines)
	if err != nil {
		return Reported{}, fmt.Errorf("metric %s: %w", family, err)
	}
	reported := Reported{Gates: map[string]bool{}}
	for _, metric := range families[family].GetMetric() {
		if name := label(metric, "name"); name != "" {
			reported.Gates[name] = value(metric) == 1
		}
	}
	for _, metric := range families[build].GetMetric() {
		reported.Version = label(metric, "git_version")
	}
	if len(reported.Gates) == 0 {
		return Reported{}, ErrNone
	}
	return reported, nil
}

func label(metric *dto.Metric, name string) string {
	for _, label := range metric.GetLabel() {
		if label.GetName() == name {
			return label.GetValue()
		}
	}
	return ""
}

func value(metric *dto.Metric) float64 {
	if gauge := metric.GetGauge(); gauge != nil {
		return gauge.GetValue()
	}
	return metric.GetUntyped().GetValue()
}

// cut returns the lines of the two families. The metrics of a large API server have tens of
// megabytes, of which a component writes a family in one piece.
func cut(from io.Reader) (*bytes.Buffer, error) {
	limited := &io.LimitedReader{R: from, N: maxBytes}
	lines, kept, found := bufio.NewReaderSize(limited, maxLine), &bytes.Buffer{}, 0
	for {
		line, err := lines.ReadSlice('\n')
		whole := err == nil || errors.Is(err, io.EOF)
		switch ours := bytes.HasPrefix(line, []byte(family+"{")); {
		case ours && (!whole || found == maxLines):
			return nil, fmt.Errorf("metric %s: more than %d lines, or one longer than %d bytes", family, maxLines, maxLine)
		case whole && found == 0 && kept.Len() == 0 && bytes.HasPrefix(line, []byte(build+"{")):
			kept.Write(bytes.TrimRight(line, "\n"))
			kept.WriteByte('\n')
		case ours:
			kept.Write(bytes.TrimRight(line, "\n"))
			kept.WriteByte('\n')
			found++
		case found > 0:
			return kept, nil
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a line of another family
			_, err = lines.ReadSlice('\n')
		}
		switch {
		case errors.Is(err, io.EOF) && limited.N <= 0:
			return nil, fmt.Errorf("metric %s: not in the first %d MiB", family, maxBytes>>20)
		case errors.Is(err, io.EOF):
			return kept, nil
		case err != nil:
			return nil, err
		}
	}
}
