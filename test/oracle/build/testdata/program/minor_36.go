//go:build minor36 || minor37

package main

import (
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/rest"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
)

// The user of every case may write everything: who may is not judged here.
func claimStrategies(namespaces typedcorev1.NamespaceInterface) (spec, status rest.RESTUpdateStrategy) {
	strategy := resourceclaim.NewStrategy(namespaces, authorizerfactory.NewAlwaysAllowAuthorizer())
	return strategy, resourceclaim.NewStatusStrategy(strategy)
}

var taintRuleStatus rest.RESTUpdateStrategy = devicetaintrule.StatusStrategy
