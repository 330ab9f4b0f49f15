// Package series_test writes generated objects to a real API server with and without
// dra-steward, as clients and GitOps tools do, and compares.
package series_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/guard"
)

const seed = 19

var cluster *envtest.Cluster

func TestMain(m *testing.M) {
	os.Exit(envtest.Main(m, envtest.Options{Kubectl: true, DeviceTaintRules: true,
		RuntimeConfig: map[string]bool{"resource.k8s.io/v1beta1": true, "resource.k8s.io/v1beta2": true},
	}, func(c *envtest.Cluster) { cluster = c }))
}

// long is the number with DRA_STEWARD_LONG, which "make test-long" sets.
func long(short, long int) int {
	if os.Getenv("DRA_STEWARD_LONG") != "" {
		return long
	}
	return short
}

func connect(t *testing.T) (dynamic.Interface, map[string][]string) {
	t.Helper()
	config := rest.CopyConfig(cluster.Config())
	config.WarningHandler, config.QPS = rest.NoWarnings{}, -1
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	served := map[string][]string{}
	for _, version := range []string{"v1", "v1beta1", "v1beta2"} {
		list, err := found.ServerResourcesForGroupVersion(resourcev1.GroupName + "/" + version)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			served[r.Name] = append(served[r.Name], version)
		}
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, served
}

func start(t *testing.T, values map[string]any) {
	t.Helper()
	g, err := guard.Start(t.Context(), cluster, guard.Options{Values: values})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
		client, _ := connect(t)
		for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
			gvr := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}
			if err := client.Resource(gvr).DeleteCollection(context.WithoutCancel(t.Context()), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
}

func of(client dynamic.Interface, gvr schema.GroupVersionResource, u *unstructured.Unstructured) dynamic.ResourceInterface {
	if u.GetNamespace() != "" {
		return client.Resource(gvr).Namespace(u.GetNamespace())
	}
	return client.Resource(gvr)
}

// TestWrites: what the API server takes, dra-steward denies with the ID of a rule or not
// at all, in every way to write.
func TestWrites(t *testing.T) {
	client, served := connect(t)
	count := long(100, 2000)
	bare := writes(t, client, served, count)
	start(t, nil)
	guarded := writes(t, client, served, count)
	named := regexp.MustCompile(`\(dra-steward (rules?|policy|policies):? [^)]+\)`)
	denied, admitted := 0, 0
	for write, err := range guarded {
		step := write[strings.LastIndex(write, " ")+1:]
		switch without := bare[write]; {
		case err == "":
			admitted++
			if without != "" && step == "create" {
				t.Errorf("%s: admitted, although the API server alone refuses it: %s", write, without)
			}
		case without == "" && !named.MatchString(err):
			t.Errorf("%s: denied without a rule: %s", write, err)
		case without == "":
			denied++
		}
	}
	t.Logf("seed %d: %d objects, %d writes: %d admitted, %d denied by a rule", seed, count, len(guarded), admitted, denied)
	if denied == 0 || admitted < count {
		t.Error("the generator makes nothing that is denied, or too little that is admitted")
	}
}

// writes are the errors of all writes of the generated objects, empty for those admitted.
func writes(t *testing.T, client dynamic.Interface, served map[string][]string, count int) map[string]string {
	t.Helper()
	r, errs := rand.New(rand.NewPCG(seed, 1)), map[string]string{}
	for i := range count {
		gvr, u := object(t, r, served, fmt.Sprintf("written-%d", i))
		c := of(client, gvr, u)
		accepted := func(step string, err error) bool {
			errs[fmt.Sprintf("%d %s %s %s", i, gvr.Version, u.GetKind(), step)] = text(err)
			return err == nil
		}
		_, err := c.Create(t.Context(), u, metav1.CreateOptions{FieldValidation: "Strict"})
		if accepted("create", err) {
			change(t, c, u.GetName(), accepted)
		}
		remove(t, c, u.GetName())
		_, err = c.Apply(t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "one"})
		if accepted("apply", err) {
			label := &unstructured.Unstructured{Object: map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(),
				"metadata": map[string]any{"name": u.GetName(), "labels": map[string]any{"example.com/second": "manager"}}}}
			_, err = c.Apply(t.Context(), u.GetName(), label, metav1.ApplyOptions{FieldManager: "two"})
			accepted("apply-second-manager", err)
			_, err = c.Apply(t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "one"})
			accepted("apply-again", err)
		}
		remove(t, c, u.GetName())
	}
	return errs
}

// change updates an object and its status.
func change(t *testing.T, c dynamic.ResourceInterface, name string, accepted func(string, error) bool) {
	t.Helper()
	stored, err := c.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored.SetLabels(map[string]string{"example.com/team": "c"})
	stored, err = c.Update(t.Context(), stored, metav1.UpdateOptions{})
	if !accepted("update", err) {
		return
	}
	var status map[string]any
	switch stored.GetKind() {
	case "ResourceClaim":
		requests, _, _ := unstructured.NestedSlice(stored.Object, "spec", "devices", "requests")
		request, _ := requests[0].(map[string]any)
		from, _ := request["name"].(string)
		if request["firstAvailable"] != nil {
			from += "/large"
		}
		status = map[string]any{"allocation": map[string]any{"devices": map[string]any{"results": []any{
			map[string]any{"request": from, "driver": driver, "pool": "node-1", "device": "gpu-0"}}}}}
	case "DeviceTaintRule":
		status = map[string]any{"conditions": []any{map[string]any{"type": "Seen", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}}}
	default:
		return
	}
	stored.Object["status"] = status
	_, err = c.UpdateStatus(t.Context(), stored, metav1.UpdateOptions{})
	accepted("status", err)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// remove deletes an object, also one that is allocated.
func remove(t *testing.T, c dynamic.ResourceInterface, name string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	err := c.Delete(ctx, name, metav1.DeleteOptions{})
	if err == nil {
		_, err = c.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// rewriting are the values of a site that changes the tolerations of new claims.
func rewriting() map[string]any {
	return map[string]any{"defaults": map[string]any{"tolerations": map[string]any{"expandEmptyEffect": true, "rules": []any{
		map[string]any{"deviceClasses": []any{driver}, "add": []any{map[string]any{
			"key": "example.com/reboot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 600}}},
		map[string]any{"maxSeconds": 3600}}}}}
}

// TestSeries: a manifest that is applied is not different afterwards, for kubectl, Flux
// (a dry run of server-side apply) and Argo CD (the patch from the last manifest, on what
// is stored): beyond what differs without dra-steward, only the tolerations that a site
// rewrites do, and only for Argo CD.
func TestSeries(t *testing.T) {
	client, served := connect(t)
	count := long(20, 200)
	var bare map[string]bool
	for _, site := range []struct {
		name    string
		prepare func(*testing.T)
		argo    *regexp.Regexp
	}{
		{"alone", func(*testing.T) {}, regexp.MustCompile(``)},
		{"defaults", func(t *testing.T) { start(t, nil) }, nil},
		{"rewritten tolerations", func(t *testing.T) { start(t, rewriting()) }, regexp.MustCompile(`\.tolerations$`)},
	} {
		t.Run(site.name, func(t *testing.T) {
			site.prepare(t)
			s := &series{t: t, client: client, alone: bare == nil}
			if s.alone {
				// Of those with dra-steward some are denied, and others take their place.
				s.generate(served, count*3/2)
			} else {
				s.generate(served, count)
			}
			defer s.remove()
			s.kubectl()
			s.flux()
			argo := s.argo()
			if bare == nil {
				bare = argo
			}
			for path := range argo {
				if !bare[path] && (site.argo == nil || !site.argo.MatchString(path)) {
					t.Errorf("Argo CD shows a difference at %s", path)
				}
			}
			t.Logf("seed %d: %d series; Argo CD shows differences at %d places, %d without dra-steward", seed, len(s.objects), len(argo), len(bare))
		})
	}
}

// A series is a set of manifests that are applied again and again.
type series struct {
	t       *testing.T
	client  dynamic.Interface
	alone   bool
	objects []applied
}

type applied struct {
	c        dynamic.ResourceInterface
	manifest *unstructured.Unstructured
}

// generate makes manifests that are admitted.
func (s *series) generate(served map[string][]string, count int) {
	r := rand.New(rand.NewPCG(seed, 2))
	for i := 0; len(s.objects) < count; i++ {
		gvr, u := object(s.t, r, served, fmt.Sprintf("series-%d", i))
		c := of(s.client, gvr, u)
		_, err := c.Create(s.t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err == nil:
			s.objects = append(s.objects, applied{c, u})
		case s.alone || !strings.Contains(err.Error(), "dra-steward rule"):
			s.t.Errorf("%s: %v", u.GetName(), err)
		}
	}
}

func (s *series) remove() {
	for _, o := range s.objects {
		remove(s.t, o.c, o.manifest.GetName())
	}
}

// file writes the manifests, those of odd number with another label if changed.
func (s *series) file(changed bool) string {
	var out bytes.Buffer
	for i, o := range s.objects {
		if changed && i%2 == 1 {
			o.manifest.SetLabels(map[string]string{"example.com/team": "changed"})
		}
		data, err := json.Marshal(o.manifest)
		if err != nil {
			s.t.Fatal(err)
		}
		fmt.Fprintf(&out, "---\n%s\n", data)
	}
	name := filepath.Join(s.t.TempDir(), "series.yaml")
	if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return name
}

// run runs kubectl; differences of kubectl diff, its exit code 1, are an error.
func (s *series) run(args ...string) {
	s.t.Helper()
	out, err := cluster.Kubectl(s.t.Context(), args...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); s.alone && args[0] == "diff" && err != nil && errors.As(err, &exit) && exit.ExitCode() == 1 {
		return // what differs without dra-steward
	}
	if err != nil {
		s.t.Errorf("kubectl %s: %v\n%.3000s", strings.Join(args, " "), err, out)
	}
}

// kubectl applies on the client's side: three times, with a change in between.
func (s *series) kubectl() {
	s.t.Helper()
	for _, changed := range []bool{false, false, true} {
		file := s.file(changed)
		before := s.versions()
		s.run("apply", "-f", file)
		s.run("diff", "-f", file)
		if after := s.versions(); !changed && before != nil && !s.alone {
			for i := range after {
				if before[i] != "" && before[i] != after[i] {
					s.t.Errorf("%s %s: applied again, and changed", s.objects[i].manifest.GetKind(), s.objects[i].manifest.GetName())
				}
			}
		}
	}
}

func (s *series) versions() (all []string) {
	for _, o := range s.objects {
		version := ""
		if stored, err := o.c.Get(s.t.Context(), o.manifest.GetName(), metav1.GetOptions{}); err == nil {
			version = stored.GetResourceVersion()
		}
		all = append(all, version)
	}
	return all
}

// flux compares what is stored with a dry run of server-side apply.
func (s *series) flux() {
	s.t.Helper()
	file := s.file(false)
	s.run("apply", "--server-side", "--force-conflicts", "--field-manager=kustomize-controller", "-f", file)
	s.run("diff", "--server-side", "--force-conflicts", "--field-manager=kustomize-controller", "-f", file)
	for _, o := range s.objects {
		name := o.manifest.GetName()
		stored, err := o.c.Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		dry, err := o.c.Apply(s.t.Context(), name, o.manifest, metav1.ApplyOptions{FieldManager: "kustomize-controller", Force: true, DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			s.t.Errorf("%s: %v", name, err)
			continue
		}
		stored.SetManagedFields(nil)
		dry.SetManagedFields(nil)
		if changed := differences("", stored.Object, dry.Object); len(changed) > 0 && !s.alone {
			s.t.Errorf("%s %s: Flux would apply it again: %v", o.manifest.GetKind(), name, changed)
		}
	}
}

// argo returns where the three-way patch from the last manifest changes what is stored.
func (s *series) argo() map[string]bool {
	s.t.Helper()
	found := map[string]bool{}
	for _, o := range s.objects {
		stored, err := o.c.Get(s.t.Context(), o.manifest.GetName(), metav1.GetOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		live, wanted := marshal(s.t, stored), marshal(s.t, o.manifest)
		last := []byte(stored.GetAnnotations()["kubectl.kubernetes.io/last-applied-configuration"])
		typed, err := scheme.Scheme.New(o.manifest.GroupVersionKind())
		if err != nil {
			s.t.Fatal(err)
		}
		meta, err := strategicpatch.NewPatchMetaFromStruct(typed)
		if err != nil {
			s.t.Fatal(err)
		}
		patch, err := strategicpatch.CreateThreeWayMergePatch(last, wanted, live, meta, true)
		if err != nil {
			s.t.Fatal(err)
		}
		predicted, err := strategicpatch.StrategicMergePatchUsingLookupPatchMeta(live, patch, meta)
		if err != nil {
			s.t.Fatal(err)
		}
		var after map[string]any
		if err := json.Unmarshal(predicted, &after); err != nil {
			s.t.Fatal(err)
		}
		var before map[string]any
		if err := json.Unmarshal(live, &before); err != nil {
			s.t.Fatal(err)
		}
		for _, path := range differences(o.manifest.GetName(), before, after) {
			found[path] = true
		}
	}
	return found
}

func marshal(t *testing.T, u *unstructured.Unstructured) []byte {
	t.Helper()
	data, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// differences are the paths of the lists and values that differ. A list is compared item
// by item if it has as many in both.
func differences(path string, a, b any) (found []string) {
	switch x := a.(type) {
	case map[string]any:
		y, is := b.(map[string]any)
		if !is {
			return []string{path}
		}
		keys := map[string]bool{}
		for key := range x {
			keys[key] = true
		}
		for key := range y {
			keys[key] = true
		}
		for key := range keys {
			found = append(found, differences(path+"."+key, x[key], y[key])...)
		}
		slices.Sort(found)
		return found
	case []any:
		y, is := b.([]any)
		if !is || len(x) != len(y) || strings.HasSuffix(path, ".tolerations") {
			break
		}
		for i := range x {
			found = append(found, differences(fmt.Sprintf("%s[%d]", path, i), x[i], y[i])...)
		}
		return found
	}
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return []string{path}
}
