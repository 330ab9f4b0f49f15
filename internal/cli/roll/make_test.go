package roll

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// given reports which flags were given.
func given(flags ...string) func(string) bool {
	return func(flag string) bool { return slices.Contains(flags, flag) }
}

// TestWanted: flags become the roll that they describe, or an error that names the flag.
func TestWanted(t *testing.T) {
	of := func(change func(*options)) *options {
		o := &options{driverPods: "gpu/app=driver", changed: given()}
		change(o)
		return o
	}
	work := func(until string) *options {
		return of(func(o *options) { o.work, o.driverPods, o.until = true, "", until })
	}
	pods := &v1alpha1.RollDriverPods{Namespace: "gpu", Labels: map[string]string{"app": "driver"}}
	waits := pods.DeepCopy()
	waits.Replace = v1alpha1.ReplaceWait
	for name, tt := range map[string]struct {
		o    *options
		want v1alpha1.DeviceRollSpec
		err  string
	}{
		"the controller replaces":   {of(func(*options) {}), v1alpha1.DeviceRollSpec{DriverPods: pods}, ""},
		"an operator replaces":      {of(func(o *options) { o.waitFor = "operator" }), v1alpha1.DeviceRollSpec{DriverPods: waits}, ""},
		"pods without a namespace":  {of(func(o *options) { o.driverPods = "app=driver" }), v1alpha1.DeviceRollSpec{}, `--driver-selector "app=driver": must be NAMESPACE/KEY=VALUE`},
		"no pods":                   {of(func(o *options) { o.driverPods = "" }), v1alpha1.DeviceRollSpec{}, "--driver-selector"},
		"all pods of a namespace":   {of(func(o *options) { o.driverPods = "gpu/" }), v1alpha1.DeviceRollSpec{}, "--driver-selector"},
		"until a condition":         {work("condition=KernelIsCurrent"), v1alpha1.DeviceRollSpec{NodeWork: &v1alpha1.RollNodeWork{Condition: &v1alpha1.RollNodeCondition{Type: "KernelIsCurrent", Status: corev1.ConditionTrue}}}, ""},
		"until an annotation":       {work("annotation=example.com/kernel=6.12=a"), v1alpha1.DeviceRollSpec{NodeWork: &v1alpha1.RollNodeWork{Annotation: &v1alpha1.RollNodeAnnotation{Key: "example.com/kernel", Value: "6.12=a"}}}, ""},
		"until an empty annotation": {work("annotation=example.com/done="), v1alpha1.DeviceRollSpec{NodeWork: &v1alpha1.RollNodeWork{Annotation: &v1alpha1.RollNodeAnnotation{Key: "example.com/done"}}}, ""},
		"by a command":              {work(""), v1alpha1.DeviceRollSpec{NodeWork: &v1alpha1.RollNodeWork{}}, ""},
		"until any annotation":      {work("annotation=example.com/done"), v1alpha1.DeviceRollSpec{}, "--until annotation=example.com/done: must be condition=TYPE or annotation=KEY=VALUE"},
		"until a condition's value": {work("condition=Ready=False"), v1alpha1.DeviceRollSpec{}, "--until"},
		"until no condition":        {work("condition="), v1alpha1.DeviceRollSpec{}, "--until"},
		"until a label":             {work("label=a=b"), v1alpha1.DeviceRollSpec{}, "--until"},
		"half a proof":              {of(func(o *options) { o.changed, o.proof.Image = given("proof-image"), "proof:1" }), v1alpha1.DeviceRollSpec{}, "--proof-namespace, --proof-class, --proof-image: a proof needs all three"},
		"names and labels":          {of(func(o *options) { o.nodes, o.nodeLabels = []string{"a"}, "rack=r7" }), v1alpha1.DeviceRollSpec{}, "--nodes, --node-selector: one of them"},
		"a timeout":                 {of(func(o *options) { o.changed, o.timeouts[1] = given("driver-timeout"), time.Minute }), v1alpha1.DeviceRollSpec{DriverPods: pods, Timeouts: v1alpha1.RollTimeouts{Driver: &metav1.Duration{Duration: time.Minute}}}, ""},
	} {
		got, err := tt.o.wanted([]string{"gpu.example.com"})
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want an error with %q", name, err, tt.err)
			}
			continue
		}
		if tt.want.Driver = "gpu.example.com"; err != nil || !equality.Semantic.DeepEqual(got.Spec, tt.want) {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
}

// TestNameOf: the same command finds its roll again, and other work is another roll.
func TestNameOf(t *testing.T) {
	names := map[string]string{}
	for what, o := range map[string]*options{
		"pods":     {driverPods: "gpu/app=driver"},
		"operator": {driverPods: "gpu/app=driver", waitFor: "operator"},
		"nodes":    {driverPods: "gpu/app=driver", nodes: []string{"a"}},
		"work":     {work: true, until: "condition=Done"},
		"other":    {work: true, until: "annotation=a=b"},
	} {
		o.changed = given()
		r, err := o.wanted([]string{"a.very.long.name.of.a.driver.gpu.example.com"})
		again, _ := o.wanted([]string{"a.very.long.name.of.a.driver.gpu.example.com"})
		if err != nil || r.Name != again.Name || len(r.Name) > 40 {
			t.Fatalf("%s: %v, %q and %q", what, err, r.Name, again.Name)
		}
		if names[r.Name] != "" {
			t.Errorf("%s and %s are both %s", what, names[r.Name], r.Name)
		}
		names[r.Name] = what
	}
}

// TestCheck: arguments that make no sense are refused, by the name of the flag.
func TestCheck(t *testing.T) {
	one := []string{"gpu.example.com"}
	for _, tt := range []struct {
		o    options
		args []string
		err  string
	}{
		{options{waitFor: "kured"}, one, "--wait-for: must be operator"},
		{options{work: true, wait: true, command: "true", until: "condition=Done"}, one, "--command, --until: one of them"},
		{options{work: true, command: "true"}, one, "--timeout, --command: add --wait"},
		{options{timeout: time.Minute}, one, "--timeout, --command: add --wait"},
		{options{noHeaders: true}, one, "--output, --no-headers: add --list"},
		{options{}, []string{"a", "b"}, "one driver or roll at a time, not a b"},
		{options{}, nil, "name the driver"},
		{options{work: true, undo: true}, nil, "name the driver"},
		{options{proceed: true, changed: given("at-a-time", "wait", "drain-timeout")}, one, "--at-a-time, --drain-timeout: not with --continue"},
	} {
		tt.o.output = "text"
		if tt.o.changed == nil {
			tt.o.changed = given()
		}
		if err := tt.o.check(tt.args); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%v, want %q", err, tt.err)
		}
	}
}

// TestSettings: each flag describes a roll, or belongs to what the command does with one.
func TestSettings(t *testing.T) {
	var connection options
	bare := &cobra.Command{}
	connection.Client.AddFlags(bare)
	does := sets.New("list", "output", "no-headers", "continue", "skip", "pause", "resume", "undo", "delete", "wait", "timeout", "dry-run", "command")
	describes, known := sets.New(settings()...), sets.New[string]()
	c := Command(cmdutil.Streams{})
	for _, c := range append(c.Commands(), c) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			known.Insert(f.Name)
			if is := bare.Flags().Lookup(f.Name) != nil || does.Has(f.Name); is == describes.Has(f.Name) {
				t.Errorf("%s --%s: add it to settings, or to what the command does", c.Name(), f.Name)
			}
		})
	}
	if missing := describes.Difference(known); len(missing) > 0 {
		t.Errorf("settings that are no flags: %v", missing)
	}
}
