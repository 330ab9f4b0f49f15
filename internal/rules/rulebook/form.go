package rulebook

import (
	"github.com/dra-steward/dra-steward/internal/foresight/podtemplate"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
)

// IDs of the form checks: what lint finds while it reads a file.
const (
	Unreadable        = "unreadable"
	UnknownField      = "unknown-field"
	DuplicateKey      = "duplicate-key"
	WrongType         = "wrong-type"
	UnknownVersion    = "unknown-version"
	UnknownKind       = "unknown-kind"
	DeprecatedVersion = "deprecated-version"
	FieldDropped      = ruleid.FieldDropped
	ComingChange      = "coming-change"
	AdminNamespace    = "admin-access-namespace"
	Unrendered        = "unrendered-template"
)

// FormRule returns the ID of the check that found a problem of kind.
func FormRule(kind manifest.ProblemKind) string {
	switch kind {
	case manifest.UnknownField:
		return UnknownField
	case manifest.DuplicateKey:
		return DuplicateKey
	case manifest.UnknownVersion:
		return UnknownVersion
	case manifest.UnknownKind:
		return UnknownKind
	default:
		return WrongType
	}
}

const unrenderedDoc = `A manifest is rendered: it has no text of a template.

The text {{ ... }} of a Helm template, and the variables $(NAME) of kustomize and ${NAME} of
Flux, are replaced before an API server gets the object. Lint checks the result:

    dra-steward lint --helm CHART
    helm template CHART | dra-steward lint -
    kustomize build FOLDER | dra-steward lint -

It is an error where the text causes one, and a warning where {{ ... }} would be stored.
Lint does not look at annotations.`

// formEntries are the checks that lint makes while it reads.
func formEntries() []Entry {
	form := func(id, doc, server string) Entry {
		return Entry{ID: id, What: "form check", Doc: doc, Upstream: server, Kinds: manifest.Kinds()}
	}
	return []Entry{
		form(Unreadable, `A file is YAML or JSON in UTF-8.

Lint reports the position of what it cannot read, and still checks the other documents of
the file.`, "refuses it too"),
		form(Unrendered, unrenderedDoc, "refuses it, or stores the text"),
		form(UnknownField, `Every field exists in the version of the kind.

The API server does not store an unknown field. With kubectl's default it refuses the
object. With other clients it stores the object without the field, which then has no
effect.`, "refuses it with fieldValidation Strict (kubectl), drops the field with Warn and Ignore"),
		form(DuplicateKey, `A key occurs once in its object.

Of two equal keys the last one counts, which is rarely the intention.`,
			"refuses it with fieldValidation Strict (kubectl), otherwise takes the last one"),
		form(WrongType, `A value has the type of its field.

With a number in place of a string, or a list in place of an object, the object cannot be
decoded.`, "refuses it"),
		form(UnknownVersion, `The version of the group resource.k8s.io exists for the kind.

The message names those that do.`, "refuses it"),
		form(UnknownKind, `The kind exists in the group resource.k8s.io.

The message names those that do.`, "refuses it"),
		form(DeprecatedVersion, `A manifest uses v1, which every API server since 1.34 serves.

Older versions are served only where the cluster enables them, and will be removed.`, "accepts it where the version is enabled, otherwise refuses it"),
		form(FieldDropped, `The API server keeps every field of the object.

While a feature gate is off, or in a minor version that does not have the gate, the API
server removes the gate's fields from new objects without an error. The object is accepted
and behaves differently than written. --kubernetes-version and --feature-gates select the
server for lint. It is a warning, because the same manifest can be intended for newer
clusters too.`, "drops the field without an error"),
		{ID: AdminNamespace, What: "check of lint", Kinds: []string{"ResourceClaim", "ResourceClaimTemplate"}, Upstream: "refuses it",
			Doc: `A request with admin access is in a namespace with the label resource.kubernetes.io/admin-access: "true".

Lint reports it where the Namespace is in the input, or in the files of --existing.`},
		form(ComingChange, `A manifest means the same to the next version of Kubernetes.

lint --kubernetes-version next reports what that version warns about, and fields that are
proposed for it. It is a warning: what is proposed can change.`, "as the page next.md says"),
	}
}

// podEntries are the checks of pods, in whatever object has them.
func podEntries() []Entry {
	pod := func(id, doc, server string) Entry {
		return Entry{ID: id, What: "check of pods", Doc: doc, Upstream: server, Kinds: []string{"Pod", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"}}
	}
	return []Entry{
		pod(podtemplate.Form, `A claim of a pod has a name of its own, and either resourceClaimName or resourceClaimTemplateName.

The field source, in which both were once, does not exist since Kubernetes 1.31. Lint finds
pods in objects of every kind: in Deployments and CronJobs, and in JobSets, RayClusters and
other custom resources.`, "refuses it"),
		pod(podtemplate.Exists, `The ResourceClaim or ResourceClaimTemplate that a pod names exists in its namespace.

Lint looks for it in the input and in the files of --existing. It is an error where these have
objects of the kind and none of the name, and a warning where they have none of the kind.`, "accepts it; the pod stays pending"),
		pod(podtemplate.Names, `A container names a claim of its pod, and a request of that claim.`,
			"refuses an unknown claim; a pod with an unknown request does not start"),
		pod(podtemplate.Unused, `A container uses each claim of the pod.

The devices of other claims are allocated, and no container can open them. It only warns,
because some drivers prepare a node for the pod.`, "accepts it"),
		pod(podtemplate.Extended, `An extended resource of a DeviceClass is in the limits of the container, and has the name that the class has.

A resource of a name unlike those of the classes in the input is left to device plugins.`,
			"refuses a request without a limit; a pod with an unknown resource stays pending"),
	}
}
