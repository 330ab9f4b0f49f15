package chart

import "maps"

// perComponent are the values that webhook, controller, node agents and scheduler all have.
func perComponent() map[string]any {
	return map[string]any{
		"podLabels": values{"example.com/a": "b"}, "podAnnotations": values{"example.com/a": "b"}, "priorityClassName": "important",
		"serviceAccount": values{"annotations": values{"example.com/a": "b"}},
		"tolerations":    []any{values{"key": "a", "operator": "Exists"}}, "affinity": values{"nodeAffinity": values{}},
		"nodeSelector": values{"example.com/a": "b"},
		"resources":    values{"limits": values{"memory": "1234Mi"}}, "extraArgs": []any{"--extra"},
		"extraEnv": []any{values{"name": "A", "value": "b"}}, "extraVolumes": extraVolumes(), "extraVolumeMounts": extraVolumeMounts(),
		"topologySpreadConstraints": []any{values{"maxSkew": 3, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": values{}}},
		"ports":                     values{"health": 1081}, "hostNetwork": true, "dnsPolicy": "Default", "revisionHistoryLimit": 0,
		"podSecurityContext": values{"runAsUser": 1234}, "securityContext": values{"runAsUser": 1234},
		"livenessProbe": values{"periodSeconds": 11}, "readinessProbe": values{"periodSeconds": 11},
	}
}

func extraVolumes() []any { return []any{values{"name": "a", "emptyDir": values{}}} }

func extraVolumeMounts() []any { return []any{values{"name": "a", "mountPath": "/a"}} }

// needs are the values without which the API server refuses another: a mount needs its volume.
func needs() map[string]map[string]any {
	return map[string]map[string]any{"extraVolumeMounts": {"extraVolumes": extraVolumes()}}
}

// values are in the shape of a values file.
type values = map[string]any

// Listed are the values that charts have by convention, each with a setting that changes what
// is rendered, by the path of the value.
func Listed() map[string]map[string]any {
	monitor := values{"enabled": true}
	all := map[string]values{
		"nameOverride": {"nameOverride": "gpu"}, "commonLabels": {"commonLabels": values{"example.com/a": "b"}},
		"image.registry":                              {"image": values{"registry": "a.example"}},
		"global.imageRegistry":                        {"global": values{"imageRegistry": "a.example"}},
		"podDisruptionBudget":                         {"podDisruptionBudget": values{"enabled": false}},
		"monitoring.serviceMonitor":                   {"monitoring": values{"serviceMonitor": monitor}},
		"monitoring.podMonitor":                       {"monitoring": values{"podMonitor": monitor}},
		"networkPolicy.enabled":                       {"networkPolicy": values{"enabled": true}},
		"rbac.aggregateToView":                        {"rbac": values{"aggregateToView": false}},
		"rbac.oncall":                                 {"rbac": values{"oncall": false}},
		"rbac.create":                                 {"rbac": values{"create": false}},
		"service.annotations":                         {"service": values{"annotations": values{"example.com/a": "b"}}},
		"service.type":                                {"service": values{"type": "NodePort"}},
		"service.ipFamilyPolicy":                      {"service": values{"ipFamilyPolicy": "PreferDualStack"}},
		"service.ipFamilies":                          {"service": values{"ipFamilies": []any{"IPv4"}}},
		"networkPolicy.egress":                        {"networkPolicy": values{"enabled": true, "egress": []any{values{}}}},
		"webhooks.annotations":                        {"webhooks": values{"annotations": values{"example.com/a": "b"}}},
		"webhooks.objectSelector":                     {"webhooks": values{"objectSelector": values{"matchLabels": values{"a": "b"}}}},
		"webhooks.matchConditions":                    {"webhooks": values{"matchConditions": []any{values{"name": "a", "expression": "true"}}}},
		"webhooks.namespaceSelector.matchLabels":      {"webhooks": values{"namespaceSelector": values{"matchLabels": values{"a": "b"}}}},
		"webhooks.namespaceSelector.matchExpressions": {"webhooks": values{"namespaceSelector": values{"matchExpressions": []any{values{"key": "a", "operator": "Exists"}}}}},
		"crds.install":                                {"crds": values{"install": false}},
		"crds.keep":                                   {"crds": values{"keep": false}},
		"node.createNamespace":                        {"node": values{"namespace": "agents", "createNamespace": true}},
		"monitoring.alerts.enabled":                   {"monitoring": values{"alerts": values{"enabled": true}}},
		"monitoring.dashboard":                        {"monitoring": values{"dashboard": values{"enabled": true}}},
	}
	for name, value := range perComponent() {
		set := values{name: value}
		maps.Copy(set, needs()[name])
		all[name] = set
		for _, component := range optional() {
			all[component+"."+name] = values{component: maps.Clone(set)}
		}
	}
	for _, component := range replicated() {
		all[component+".podDisruptionBudget"] = values{component: values{"podDisruptionBudget": values{"enabled": false}}}
	}
	return all
}

// optional are the components that have values of their own.
func optional() []string { return []string{"controller", "node", "scheduler"} }

// replicated are those of them whose replicas can be more than one.
func replicated() []string { return []string{"controller", "scheduler"} }

// AllComponents are values that switch all components on, with two replicas where there can be
// more than one, and more.
func AllComponents(more map[string]any) map[string]any {
	v := values{}
	for _, component := range optional() {
		v[component] = values{"enabled": true}
	}
	for _, component := range replicated() {
		v[component].(values)["replicaCount"] = 2
	}
	for key, value := range more {
		own, component := v[key].(values)
		if !component {
			v[key] = value
			continue
		}
		maps.Copy(own, value.(values))
	}
	return v
}
