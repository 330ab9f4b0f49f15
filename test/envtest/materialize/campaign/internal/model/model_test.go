package model_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/test/envtest/materialize/campaign/internal/model"
)

const driver = "d.example.com"

func text(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }

// device has attributes as name=value, and 4 of memory.
func device(name string, attributes ...string) resourceapi.Device {
	d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("4")}}}
	for _, a := range attributes {
		key, value, _ := strings.Cut(a, "=")
		d.Attributes[resourceapi.QualifiedName(key)] = text(value)
	}
	return d
}

func pool(devices ...resourceapi.Device) model.Pool {
	return model.Pool{Driver: driver, Name: "a", Slices: [][]model.Device{model.Of(driver, devices)}}
}

// stored has one slice for each list of devices, with names in the order that drivers give.
func stored(slices ...[]resourceapi.Device) (all []resourceapi.ResourceSlice) {
	for i, devices := range slices {
		all = append(all, resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%05d-%s-x", i, driver)}, Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, Pool: resourceapi.ResourcePool{Name: "a", Generation: 3, ResourceSliceCount: int64(len(slices))}, Devices: devices}})
	}
	return all
}

func attribute(name string) model.Name { return model.Name{Full: driver + "/" + name} }

// show lists the values of the first device of a pool.
func show(p model.Pool) string {
	var parts []string
	for name, v := range p.Slices[0][0].Values {
		parts = append(parts, fmt.Sprintf("%s:%s(%s)", name, v.Text, v.Spelling))
	}
	slices.Sort(parts)
	return strings.ReplaceAll(strings.Join(parts, " "), driver+"/", "")
}

// TestExpect holds the model against the sentences of docs/patches.md.
func TestExpect(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	model1 := func(name string, priority int64, created time.Time, value string) model.Patch {
		return model.Patch{Name: name, Priority: priority, Created: created, Changes: map[model.Name]string{attribute("model"): value}}
	}
	for name, test := range map[string]struct {
		patches []model.Patch
		want    string
	}{
		"no patch":            {nil, "attribute model:string x(model) capacity memory:quantity 4(memory)"},
		"a patch wins":        {[]model.Patch{model1("p", -5, at, "string z")}, "attribute model:string z(model) capacity memory:quantity 4(memory)"},
		"the higher priority": {[]model.Patch{model1("a", 0, at, "string a"), model1("b", 1, at.Add(time.Hour), "string b")}, "attribute model:string b(model) capacity memory:quantity 4(memory)"},
		"then the older":      {[]model.Patch{model1("a", 1, at.Add(time.Second), "string a"), model1("b", 1, at, "string b")}, "attribute model:string b(model) capacity memory:quantity 4(memory)"},
		"then the first":      {[]model.Patch{model1("b", 1, at, "string b"), model1("a", 1, at, "string a")}, "attribute model:string a(model) capacity memory:quantity 4(memory)"},
		"a removal":           {[]model.Patch{model1("a", 1, at, ""), model1("b", 0, at, "string b")}, "capacity memory:quantity 4(memory)"},
		"a removal is lower":  {[]model.Patch{model1("a", 0, at, ""), model1("b", 1, at, "string b")}, "attribute model:string b(model) capacity memory:quantity 4(memory)"},
		"another driver":      {[]model.Patch{{Driver: "e.example.com", Changes: map[model.Name]string{attribute("model"): ""}}}, "attribute model:string x(model) capacity memory:quantity 4(memory)"},
		"another pool":        {[]model.Patch{{Pool: "b", Changes: map[model.Name]string{attribute("model"): ""}}}, "attribute model:string x(model) capacity memory:quantity 4(memory)"},
		"another device":      {[]model.Patch{{Device: "b", Changes: map[model.Name]string{attribute("model"): ""}}}, "attribute model:string x(model) capacity memory:quantity 4(memory)"},
		"selected":            {[]model.Patch{{Driver: driver, Pool: "a", Device: "a", Changes: map[model.Name]string{{Full: driver + "/memory", Capacity: true}: "quantity 2"}}}, "attribute model:string x(model) capacity memory:quantity 2(memory)"},
		"a new name":          {[]model.Patch{{Changes: map[model.Name]string{{Full: "s/rack"}: "int 3"}}}, "attribute model:string x(model) attribute s/rack:int 3() capacity memory:quantity 4(memory)"},
		"as the driver says":  {[]model.Patch{model1("b", 1, at, "string z"), {Name: "c", Selects: func(d model.Device) bool { return d.Values[attribute("model")].Text == "string x" }, Changes: map[model.Name]string{{Full: "s/r"}: "int 3"}}}, "attribute model:string z(model) attribute s/r:int 3() capacity memory:quantity 4(memory)"},
		"not as a patch says": {[]model.Patch{model1("b", 1, at, "string z"), {Name: "c", Selects: func(d model.Device) bool { return d.Values[attribute("model")].Text == "string z" }, Changes: map[model.Name]string{{Full: "s/r"}: "int 3"}}}, "attribute model:string z(model) capacity memory:quantity 4(memory)"},
	} {
		published := pool(device("a", "model=x"))
		if got := show(model.Expect(published, test.patches)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		if got := show(published); got != "attribute model:string x(model) capacity memory:quantity 4(memory)" {
			t.Errorf("%s: what is published has changed: %s", name, got)
		}
	}
}

// TestCompare: every kind of difference is found, and no other.
func TestCompare(t *testing.T) {
	tainted := device("a", "model=x")
	tainted.Taints = []resourceapi.DeviceTaint{{Key: "k", Value: "v", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	other := stored([]resourceapi.Device{device("a", "model=x")})
	other[0].Spec.Pool.ResourceSliceCount = 2
	elsewhere := stored([]resourceapi.Device{device("a", "model=x")})
	elsewhere[0].Spec.Pool.Name = "b"
	for name, test := range map[string]struct {
		stored []resourceapi.ResourceSlice
		want   string
	}{
		"equal":              {stored([]resourceapi.Device{device("a", "model=x")}), ""},
		"a value":            {stored([]resourceapi.Device{device("a", "model=y")}), `attribute d.example.com/model is "string y", want "string x"`},
		"a missing value":    {stored([]resourceapi.Device{device("a")}), `no attribute d.example.com/model`},
		"an additional one":  {stored([]resourceapi.Device{device("a", "model=x", "s/r=1")}), `attribute s/r is "string 1", want none`},
		"another spelling":   {stored([]resourceapi.Device{device("a", driver+"/model=x")}), "is spelled"},
		"a taint":            {stored([]resourceapi.Device{tainted}), "taints"},
		"another device":     {stored([]resourceapi.Device{device("b", "model=x")}), "want device a"},
		"one device more":    {stored([]resourceapi.Device{device("a", "model=x"), device("b")}), "has 2 devices, want 1"},
		"one slice more":     {stored([]resourceapi.Device{device("a", "model=x")}, nil), "2 slices, want 1"},
		"an incomplete pool": {other, "of generation 3 with 2 slices"},
		"an old pool":        {append(stored([]resourceapi.Device{device("a", "model=x")}), elsewhere...), "1 slices of a pool that is not published"},
	} {
		var got []string
		for _, d := range model.Compare([]model.Pool{pool(device("a", "model=x"))}, test.stored) {
			got = append(got, d.String())
		}
		if all := strings.Join(got, "; "); (test.want == "") != (len(got) == 0) || !strings.Contains(all, test.want) {
			t.Errorf("%s: %q, want %q", name, all, test.want)
		}
	}
}

// TestExcused: only values that no process knew, and that were perhaps not copied, are excused.
func TestExcused(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	span := func(from, to int) model.Span {
		if to == 0 {
			return model.Span{From: at(from)}
		}
		return model.Span{From: at(from), To: at(to)}
	}
	loss := model.Loss{Changed: at(100), Deleted: at(120), Created: at(130)}
	for name, test := range map[string]struct {
		running, leading []model.Span
		excused          bool
	}{
		"a webhook that runs":                  {[]model.Span{span(0, 0)}, nil, false},
		"a leader that ends later":             {[]model.Span{span(90, 131)}, nil, false},
		"webhooks that start after each other": {[]model.Span{span(90, 125), span(121, 0)}, nil, true},
		"nothing ran":                          {nil, nil, true},
		"nothing ran, and it was copied":       {nil, []model.Span{span(95, 111)}, false},
		"the leader ended too early":           {nil, []model.Span{span(95, 109)}, true},
		"the leader began late":                {nil, []model.Span{span(105, 116)}, false},
		"the leader began too late":            {nil, []model.Span{span(121, 0)}, true},
	} {
		if got := model.Excused(loss, test.running, test.leading); got != test.excused {
			t.Errorf("%s: excused is %t", name, got)
		}
	}
}
