package campaign

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
	"github.com/dra-steward/dra-steward/test/envtest/materialize/campaign/internal/model"
)

const (
	// patchNames is how many patches there are at most.
	patchNames = 6
	// patchedMemory is the least memory of patches; drivers have less.
	patchedMemory = 1_000_000
)

// A patcher is an administrator who writes patches.
type patcher struct {
	w       *world
	random  *rand.Rand
	client  dynamic.ResourceInterface
	drivers []string
	// live are the patches that there are.
	live map[string]model.Patch
}

func newPatcher(t *testing.T, w *world, seed uint64, drivers []*driver) *patcher {
	t.Helper()
	untyped, err := dynamic.NewForConfig(w.Config())
	if err != nil {
		t.Fatal(err)
	}
	p := &patcher{w: w, random: rand.New(rand.NewPCG(seed, 2)), live: map[string]model.Patch{},
		client: untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSlicePatchResource))}
	for _, d := range drivers {
		p.drivers = append(p.drivers, d.name)
	}
	return p
}

// run writes and deletes patches until ctx ends.
func (p *patcher) run(ctx context.Context) error {
	for {
		longrun.Until(ctx, time.Now().Add(time.Duration(200+p.random.IntN(2000))*time.Millisecond))
		if ctx.Err() != nil {
			return nil
		}
		if err := p.operate(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}

func (p *patcher) operate(ctx context.Context) error {
	name := fmt.Sprint("patch-", p.random.IntN(patchNames))
	_, is := p.live[name]
	switch {
	case is && p.random.IntN(3) == 0:
		p.w.note("patches deleted", "%s", name)
		return p.remove(ctx, name)
	case is:
		p.w.note("patches changed", "%s", name)
	default:
		p.w.note("patches created", "%s", name)
	}
	return p.put(ctx, name)
}

// removeAll deletes all patches.
func (p *patcher) removeAll(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(p.live)) {
		if err := p.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (p *patcher) remove(ctx context.Context, name string) error {
	delete(p.live, name)
	return p.w.write(ctx, func(ctx context.Context) error {
		err := p.client.Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) { // an earlier attempt had no answer
			return nil
		}
		return err
	})
}

// put creates a patch, or replaces it.
func (p *patcher) put(ctx context.Context, name string) error {
	spec, as := p.draw()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.ResourceSlicePatchKind,
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"devices": content},
	}}
	return p.w.write(ctx, func(ctx context.Context) error {
		stored, err := p.client.Apply(ctx, name, object, metav1.ApplyOptions{FieldManager: "test", Force: true})
		if err != nil {
			return err
		}
		as.Name, as.Created = name, stored.GetCreationTimestamp().Time
		p.live[name] = as
		return nil
	})
}

// draw is a random patch, and what it means.
func (p *patcher) draw() (spec v1alpha1.DevicePatch, as model.Patch) {
	domain := p.drivers[p.random.IntN(len(p.drivers))]
	var filter v1alpha1.DevicePatchFilter
	if p.random.IntN(5) > 0 {
		as.Driver = domain
		filter.Driver = &as.Driver
		p.selectors(&filter, &as)
	}
	if p.random.IntN(4) == 0 {
		as.Pool = fmt.Sprint("pool-", p.random.IntN(maxPools))
		filter.Pool = &as.Pool
	}
	if p.random.IntN(4) == 0 {
		as.Device = fmt.Sprint("dev-", p.random.IntN(4))
		filter.Device = &as.Device
	}
	if as.Driver+as.Pool+as.Device != "" {
		spec.Filter = &filter
	}
	if p.random.IntN(3) > 0 {
		as.Priority = p.random.Int64N(4) - 1
		spec.Priority = new(as.Priority)
	}
	p.changes(&spec, &as, domain)
	return spec, as
}

// selectors adds, at times, one that fails for devices without the attribute, or one for devices with
// a value that patches change, too.
func (p *patcher) selectors(filter *v1alpha1.DevicePatchFilter, as *model.Patch) {
	driver := as.Driver
	text := func(d model.Device, key string) string {
		return strings.TrimPrefix(d.Values[model.Name{Full: driver + "/" + key}].Text, "string ")
	}
	var expression string
	switch p.random.IntN(5) {
	case 0:
		expression = fmt.Sprintf(`device.attributes[%q].tier == "gold"`, driver)
		as.Selects = func(d model.Device) bool { return text(d, "tier") == "gold" }
	case 1:
		expression = fmt.Sprintf(`device.attributes[%q].?model.orValue("").startsWith("v-")`, driver)
		as.Selects = func(d model.Device) bool { return strings.HasPrefix(text(d, "model"), "v-") }
	default:
		return
	}
	filter.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
}

// changes adds what the patch says.
func (p *patcher) changes(spec *v1alpha1.DevicePatch, as *model.Patch, domain string) {
	as.Changes = map[model.Name]string{}
	spec.Attributes = map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{}
	spec.Capacity = map[resourceapi.FullyQualifiedName]resourceapi.DeviceCapacity{}
	full := func(key string) string {
		if strings.Contains(key, "/") {
			return key
		}
		return domain + "/" + key
	}
	for _, key := range append(attributeKeys(), "added") {
		name := model.Name{Full: full(key)}
		switch p.random.IntN(6) {
		case 0:
			spec.Attributes[resourceapi.FullyQualifiedName(name.Full)] = v1alpha1.NullableDeviceAttribute{NullValue: &v1alpha1.NullValue{}}
			as.Changes[name] = ""
		case 1, 2:
			value := attributeOf(key, -1-p.random.IntN(patchValues))
			spec.Attributes[resourceapi.FullyQualifiedName(name.Full)] = v1alpha1.NullableDeviceAttribute{DeviceAttribute: value}
			as.Changes[name] = model.Attribute(value)
		}
	}
	for _, key := range []string{"memory", "more"} {
		if name := (model.Name{Full: full(key), Capacity: true}); p.random.IntN(3) == 0 {
			value := *resource.NewQuantity(patchedMemory+p.random.Int64N(patchValues), resource.DecimalSI)
			spec.Capacity[resourceapi.FullyQualifiedName(name.Full)] = resourceapi.DeviceCapacity{Value: value}
			as.Changes[name] = fmt.Sprint("quantity ", value.Value())
		}
	}
}
