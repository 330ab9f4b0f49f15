package main

import (
	"encoding/json"
	"fmt"
	"math/rand"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/resource"
	resourcefuzzer "k8s.io/kubernetes/pkg/apis/resource/fuzzer"
)

// fuzzed returns the object that upstream's own fuzzer makes of a seed.
func fuzzed(kind string, seed int64) (json.RawMessage, error) {
	if _, known := kinds[kind]; !known {
		return nil, fmt.Errorf("kind %q is not judged", kind)
	}
	obj, err := legacyscheme.Scheme.New(schema.GroupVersionKind{Group: resource.GroupName, Version: "__internal", Kind: kind})
	if err != nil {
		return nil, err
	}
	fill := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, resourcefuzzer.Funcs)
	fuzzer.FuzzerFor(fill, rand.NewSource(seed), legacyscheme.Codecs).Fill(obj)
	return encode(obj, newest(schema.GroupVersionKind{Group: resource.GroupName, Version: "v1", Kind: kind}))
}
