package envtest

import (
	"maps"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// taintRules is what a minor needs to have DeviceTaintRules.
type taintRules struct {
	versions []string // of the API, newest first
	gates    []string // that are off by default
}

func taintRulesOf(minor string) taintRules {
	switch minor {
	case "1.34": // one gate for taints and rules
		return taintRules{[]string{"v1alpha3"}, []string{"DRADeviceTaints"}}
	case "1.35":
		return taintRules{[]string{"v1alpha3"}, []string{"DRADeviceTaints", "DRADeviceTaintRules"}}
	case "1.36":
		return taintRules{[]string{"v1beta2", "v1alpha3"}, []string{"DRADeviceTaintRules"}}
	}
	return taintRules{[]string{"v1"}, nil}
}

// withTaintRules switches on what Options.DeviceTaintRules asks for, except what the
// options themselves say.
func (o Options) withTaintRules(minor string) Options {
	needed := taintRulesOf(minor)
	gates, versions := map[string]bool{}, map[string]bool{}
	for _, gate := range needed.gates {
		gates[gate] = true
	}
	for _, version := range needed.versions {
		versions[resourceapi.GroupName+"/"+version] = true
	}
	maps.Copy(gates, o.FeatureGates)
	maps.Copy(versions, o.RuntimeConfig)
	o.FeatureGates, o.RuntimeConfig = gates, versions
	return o
}

// Minor is that of Version, for example 1.37.
func (c *Cluster) Minor() string { return minorOf(c.Version()) }

func minorOf(version string) string { return version[:strings.LastIndex(version, ".")] }

// DeviceTaintRules is the resource in the newest version that the minor has, served or
// not: see [Options.DeviceTaintRules].
func (c *Cluster) DeviceTaintRules() schema.GroupVersionResource {
	version := taintRulesOf(c.Minor()).versions[0]
	return schema.GroupVersionResource{Group: resourceapi.GroupName, Version: version, Resource: "devicetaintrules"}
}
