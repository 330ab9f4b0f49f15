package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"oracle/wire"
)

// detailBytes is how much of a message an answer repeats. What is wrong comes last
// in a message, after the value.
const detailBytes = 200

// answerTo judges one case.
func answerTo(c wire.Case) (answer wire.Answer) {
	answer.ID = c.ID
	defer func() {
		if problem := recover(); problem != nil {
			answer = wire.Answer{ID: c.ID, Panic: fmt.Sprint(problem)}
		}
	}()
	if told(c, &answer) {
		return answer
	}
	obj, gvk, err := decode(c.Object)
	if err != nil {
		answer.DecodeError = err.Error()
		return answer
	}
	kind, known := kinds[gvk.Kind]
	if !known {
		answer.NotServed = true
		return answer
	}
	if err := write(c, kind, obj, gvk); err != nil {
		var misuse misuseError
		switch {
		case errors.Is(err, errNotServed):
			answer.NotServed = true
			return answer
		case errors.As(err, &misuse):
			answer.Misuse = misuse.Error()
		default:
			answer.Errors = causes(err)
		}
	}
	if c.Full {
		if answer.Object, answer.Dropped, err = after(obj, gvk, c.Object); err != nil {
			answer.Misuse = err.Error()
		}
	}
	return answer
}

// told answers the questions that are no writes.
func told(c wire.Case, answer *wire.Answer) bool {
	var err error
	switch c.Op {
	case wire.Fuzz:
		answer.Object, err = fuzzed(c.Kind, c.Seed)
	case wire.Measure:
		answer.Measured, err = measure(c)
	case wire.Gates:
		answer.Gates = defaults()
	default:
		return false
	}
	if err != nil {
		answer.Misuse = err.Error()
	}
	return true
}

var errNotServed = errors.New("not served")

// misuseError is an error of the case and not of its object.
type misuseError struct{ error }

// write does what the API server does before it stores obj.
func write(c wire.Case, kind kind, obj runtime.Object, gvk schema.GroupVersionKind) error {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return misuseError{err}
	}
	ctx := contextFor(c, kind, accessor, gvk)
	switch {
	case c.Op == wire.Create && c.Subresource == "":
		return create(ctx, kind.create, obj, accessor)
	case c.Op == wire.Update && c.Subresource == "":
		return update(ctx, kind.update, c, obj, accessor)
	case c.Op == wire.Update && c.Subresource == "status" && kind.status != nil:
		return update(ctx, kind.status, c, obj, accessor)
	}
	return errNotServed
}

func create(ctx context.Context, strategy rest.RESTCreateStrategy, obj runtime.Object, accessor metav1.Object) error {
	rest.WipeObjectMetaSystemFields(accessor)
	rest.FillObjectMetaSystemFields(accessor)
	if accessor.GetName() == "" && accessor.GetGenerateName() != "" {
		accessor.SetName(strategy.GenerateName(accessor.GetGenerateName()))
	}
	return rest.BeforeCreate(strategy, ctx, obj)
}

func update(ctx context.Context, strategy rest.RESTUpdateStrategy, c wire.Case, obj runtime.Object, accessor metav1.Object) error {
	old, _, err := decode(c.Old)
	if err != nil {
		return misuseError{fmt.Errorf("the stored object: %w", err)}
	}
	stored, err := meta.Accessor(old)
	if err != nil {
		return misuseError{err}
	}
	if stored.GetResourceVersion() == "" {
		stored.SetResourceVersion("1")
	}
	if accessor.GetResourceVersion() == "" {
		accessor.SetResourceVersion(stored.GetResourceVersion())
	}
	if strategy.NamespaceScoped() && stored.GetNamespace() == "" {
		stored.SetNamespace(metav1.NamespaceDefault)
	}
	return rest.BeforeUpdate(strategy, ctx, obj, old)
}

// contextFor makes the context of the request. Declarative validation takes the
// version from it.
func contextFor(c wire.Case, kind kind, accessor metav1.Object, gvk schema.GroupVersionKind) context.Context {
	namespace := ""
	if kind.create.NamespaceScoped() {
		if namespace = accessor.GetNamespace(); namespace == "" {
			namespace = metav1.NamespaceDefault
		}
	}
	ctx := request.WithNamespace(context.WithValue(context.Background(), adminKey{}, c.Admin), namespace)
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "oracle"})
	return request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, Verb: c.Op, APIPrefix: "apis", APIGroup: gvk.Group, APIVersion: gvk.Version,
		Namespace: namespace, Resource: kind.resource, Subresource: c.Subresource, Name: accessor.GetName(),
	})
}

// causes takes an error of the API server apart.
func causes(err error) (list []wire.Error) {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return []wire.Error{{Type: "unknown", Detail: end(err.Error())}}
	}
	if details := status.Status().Details; details != nil && status.Status().Reason == metav1.StatusReasonInvalid {
		for _, cause := range details.Causes {
			list = append(list, wire.Error{Type: string(cause.Type), Field: cause.Field, Detail: end(cause.Message)})
		}
	}
	if len(list) == 0 {
		return []wire.Error{{Type: string(status.Status().Reason), Detail: end(status.Status().Message)}}
	}
	slices.SortFunc(list, func(a, b wire.Error) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Detail, b.Detail))
	})
	return unique(slices.Compact(list))
}

// unique joins what has the same type at the same place.
func unique(sorted []wire.Error) (list []wire.Error) {
	for _, e := range sorted {
		if n := len(list); n > 0 && list[n-1].Field == e.Field && list[n-1].Type == e.Type {
			list[n-1].Detail += "; " + e.Detail
			continue
		}
		list = append(list, e)
	}
	return list
}

func end(message string) string {
	if len(message) > detailBytes {
		return message[len(message)-detailBytes:]
	}
	return message
}
