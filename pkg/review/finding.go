package review

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// A Finding is one thing that is wrong.
type Finding struct {
	// Rule is the ID of the rule or default that found it.
	Rule     string
	Severity validate.Severity
	// Type is the kind of the problem as the API server names it.
	Type field.ErrorType
	// Path is the place in the notation of field.Path, list items by their names.
	Path string
	// Message is the problem and its remedy, without the path.
	Message string
}

// sort puts errors before warnings.
func (a *Answer) sort() {
	slices.SortStableFunc(a.Findings, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) })
}

// add appends what rules have found. Those that warnOnly names never weigh more than a
// warning.
func (a *Answer) add(errs field.ErrorList, warnOnly map[string]bool, severities severities) {
	for _, err := range errs {
		severity := severities.of(err.Origin)
		if warnOnly[err.Origin] {
			severity = max(severity, validate.Warning)
		}
		a.append(err, severity)
	}
}

// addTolerated appends what was there before and is no worse now: at most a warning.
func (a *Answer) addTolerated(errs field.ErrorList, severities severities) {
	for _, err := range errs {
		a.append(err, max(severities.of(err.Origin), validate.Warning))
	}
}

func (a *Answer) append(err *field.Error, severity validate.Severity) {
	if severity != validate.Off {
		a.Findings = append(a.Findings, Finding{err.Origin, severity, err.Type, err.Field, err.ErrorBody()})
	}
}

// addWarnings appends what defaults have found.
func (a *Answer) addWarnings(warnings []mutate.Warning, severities severities) {
	for _, w := range warnings {
		if max(severities.of(w.Default), validate.Warning) != validate.Off {
			a.Findings = append(a.Findings, Finding{w.Default, validate.Warning, field.ErrorTypeInvalid, w.Path, w.Message})
		}
	}
}

func displayName(obj any) string {
	meta, ok := obj.(metav1.Object)
	if !ok {
		return ""
	}
	if meta.GetName() == "" && meta.GetGenerateName() != "" {
		return meta.GetGenerateName() + "*"
	}
	return meta.GetName()
}

func namespaceOf(obj any) string {
	if meta, ok := obj.(metav1.Object); ok {
		return meta.GetNamespace()
	}
	return ""
}
