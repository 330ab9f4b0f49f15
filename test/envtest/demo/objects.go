package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// stored is an object as YAML, without what differs from write to write.
type stored string

// stock asks the API server what it would store of the examples by itself, before
// dra-steward is there.
func (s *show) stock(ctx context.Context) (map[string]stored, error) {
	files, err := s.files("admitted")
	if err != nil {
		return nil, err
	}
	c, err := client.New(s.cluster.Config(), client.Options{})
	if err != nil {
		return nil, err
	}
	stock := map[string]stored{}
	for _, file := range files {
		object, err := read(file)
		if err != nil {
			return nil, err
		}
		if err := c.Create(ctx, object, client.DryRunAll); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if stock[file], err = normal(object); err != nil {
			return nil, err
		}
	}
	return stock, nil
}

// get reads from the API server what file describes.
func (s *show) get(ctx context.Context, file string) (stored, error) {
	object, err := read(file)
	if err != nil {
		return "", err
	}
	c, err := client.New(s.cluster.Config(), client.Options{})
	if err != nil {
		return "", err
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return "", err
	}
	return normal(object)
}

// create stores an object that is in no file, and says so as kubectl would.
func (s *show) create(ctx context.Context, object map[string]any) error {
	c, err := client.New(s.cluster.Config(), client.Options{})
	if err != nil {
		return err
	}
	return c.Create(ctx, &unstructured.Unstructured{Object: object})
}

func read(file string) (*unstructured.Unstructured, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(data, &object.Object); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return object, nil
}

// added is the time of a taint that the API server has just filled in.
var added = regexp.MustCompile(`timeAdded: .*`)

func normal(object *unstructured.Unstructured) (stored, error) {
	object = object.DeepCopy()
	for _, field := range []string{"managedFields", "uid", "resourceVersion", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	if len(object.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations")
	}
	// What the scheduler and the controllers write is none of our doing.
	unstructured.RemoveNestedField(object.Object, "status")
	unstructured.RemoveNestedField(object.Object, "spec", "nodeName")
	data, err := yaml.Marshal(object.Object)
	return stored(added.ReplaceAll(data, []byte("timeAdded: <time of the write>"))), err
}

// diff returns the lines that now adds to before and takes away, empty for none.
func (before stored) diff(now stored) string {
	text := string(diff.Diff("API server", []byte(before), "with dra-steward", []byte(now)))
	if _, lines, found := strings.Cut(text, "\n"); found { // the first line repeats the names
		return strings.TrimRight(lines, "\n")
	}
	return ""
}
