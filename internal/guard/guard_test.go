package guard_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// Example asks whether 31 pods may go.
func Example() {
	hit := guard.Counts{Devices: 31, DriverDevices: 1000, Claims: 31, Pods: 31, Namespaces: 2}
	fmt.Println(guard.DefaultThresholds().Exceeded(hit, nil))
	acknowledged, _ := guard.ParseCeiling("pods<=40")
	fmt.Println(guard.DefaultThresholds().Exceeded(hit, &acknowledged))
	fmt.Println(guard.CeilingOf(hit).Annotate())
	// Output:
	// [31 pods are more than the threshold of 20]
	// []
	// dra-steward.io/acknowledged-impact: "pods<=31,namespaces<=2"
}

func ceiling(t *testing.T, text string) *guard.Ceiling {
	t.Helper()
	if text == "" {
		return nil
	}
	c, err := guard.ParseCeiling(text)
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestExceeded(t *testing.T) {
	thresholds := guard.Thresholds{Pods: 20, Namespaces: 5, Percent: 25}
	for name, tt := range map[string]struct {
		counts       guard.Counts
		acknowledged string
		want         string
	}{
		"nothing":               {guard.Counts{}, "", ""},
		"at the thresholds":     {guard.Counts{Devices: 25, DriverDevices: 100, Claims: 99, Pods: 20, Namespaces: 5}, "", ""},
		"pods":                  {guard.Counts{Pods: 21}, "", "21 pods are more than the threshold of 20"},
		"one pod":               {guard.Counts{Pods: 1}, "pods<=0", "1 pod is more than the acknowledged 0"},
		"namespaces":            {guard.Counts{Namespaces: 6}, "", "6 namespaces are more than the threshold of 5"},
		"share":                 {guard.Counts{Devices: 26, DriverDevices: 100}, "", "26 % of the devices of the drivers are more than the threshold of 25 %"},
		"share, rounded up":     {guard.Counts{Devices: 251, DriverDevices: 1000}, "", "26 % of the devices of the drivers are more than the threshold of 25 %"},
		"the only device":       {guard.Counts{Devices: 1, DriverDevices: 1}, "", ""},
		"devices not published": {guard.Counts{Devices: 7}, "", ""},
		"acknowledged":          {guard.Counts{Devices: 9, DriverDevices: 9, Claims: 99, Pods: 99, Namespaces: 9}, "pods<=99,namespaces<=9", ""},
		"one more":              {guard.Counts{Pods: 100, Namespaces: 2}, "pods<=99", "100 pods are more than the acknowledged 99"},
		"not spoken of":         {guard.Counts{Pods: 99, Namespaces: 9}, "pods<=99", "9 namespaces are more than the threshold of 5"},
		"less than usual":       {guard.Counts{Pods: 6}, "pods<=5", "6 pods are more than the acknowledged 5"},
		"claims and devices":    {guard.Counts{Devices: 4, DriverDevices: 4, Claims: 4}, "devices<=3,claims<=3", "4 devices are more than the acknowledged 3, 4 claims are more than the acknowledged 3"},
		"devices for the share": {guard.Counts{Devices: 4, DriverDevices: 4}, "devices<=4", ""},
		"namespaces alone":      {guard.Counts{Devices: 4, DriverDevices: 4, Namespaces: 9}, "namespaces<=9", "100 % of the devices of the drivers are more than the threshold of 25 %"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, over := range thresholds.Exceeded(tt.counts, ceiling(t, tt.acknowledged)) {
				got = append(got, over.String())
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestParseCeiling(t *testing.T) {
	for text, want := range map[string]string{
		"pods<=120,namespaces<=4":               "pods<=120,namespaces<=4",
		" namespaces <= 4 , pods<=0":            "pods<=0,namespaces<=4",
		"claims<=1,devices<=2,pods<=3":          "devices<=2,claims<=1,pods<=3",
		"pods<=999999999":                       "pods<=999999999",
		"":                                      "is empty",
		" ":                                     "is empty",
		"true":                                  `"true" has no <=`,
		"pods<120":                              `"pods<120" has no <=`,
		"pods<=1,":                              `"" has no <=`,
		"pod<=1":                                `"pod" is unknown`,
		"Pods<=1":                               `"Pods" is unknown`,
		"pods<=1,pods<=2":                       "pods is listed twice",
		"pods<=-1":                              `pods<= needs a number from 0 to 999999999 and has "-1"`,
		"pods<=+1":                              `pods<= needs a number from 0 to 999999999 and has "+1"`,
		"pods<=01":                              `pods<= needs a number from 0 to 999999999 and has "01"`,
		"pods<=1e3":                             `pods<= needs a number from 0 to 999999999 and has "1e3"`,
		"pods<=":                                `pods<= needs a number from 0 to 999999999 and has ""`,
		"pods<=1000000000":                      `pods<= needs a number from 0 to 999999999 and has "1000000000"`,
		"pods<=*":                               `pods<= needs a number from 0 to 999999999 and has "*"`,
		strings.Repeat("x", 129):                "is longer than 128 characters",
		"pods<=99999999999999999999999999999":   "needs a number",
		"pods<=1;namespaces<=1":                 "needs a number",
		"pods<=1,namespaces<=1,everything<=all": `"everything" is unknown`,
	} {
		c, err := guard.ParseCeiling(text)
		var wrong guard.CeilingError
		switch {
		case err == nil:
			if c.String() != want {
				t.Errorf("%q: got %s, want %s", text, c, want)
			}
		case !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "write a list of devices"):
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// FuzzParseCeiling shows that what is read is what is written, and that what is refused
// acknowledges nothing.
func FuzzParseCeiling(f *testing.F) {
	for _, seed := range []string{"pods<=120,namespaces<=4", "", "pods<=1,pods<=2", "devices<= 0", ",", "pods<=<=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := guard.ParseCeiling(text)
		if err != nil {
			if c != (guard.Ceiling{}) {
				t.Fatalf("%q: refused, and acknowledges %s", text, c)
			}
			return
		}
		again, err := guard.ParseCeiling(c.String())
		if err != nil || !again.Equal(c) || c.Equal(guard.Ceiling{}) {
			t.Fatalf("%q: %s became %s, %v", text, c, again, err)
		}
	})
}

func TestWidens(t *testing.T) {
	s := func(v string) *string { return &v }
	type selector = resourceapi.DeviceTaintSelector
	rule := func(effect resourceapi.DeviceTaintEffect, key string, on *selector) *resourceapi.DeviceTaintRule {
		return &resourceapi.DeviceTaintRule{Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: on, Taint: resourceapi.DeviceTaint{Key: key, Effect: effect},
		}}
	}
	const no, ex, none = resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone
	d, p := &selector{Driver: s("d")}, &selector{Driver: s("d"), Pool: s("p")}
	now := time.Unix(1e9, 0)
	due := func(in time.Duration, on *selector) *resourceapi.DeviceTaintRule {
		r := rule(ex, "k", on)
		r.Spec.Taint.TimeAdded = &metav1.Time{Time: now.Add(in)}
		return r
	}
	for name, tt := range map[string]struct {
		old, new *resourceapi.DeviceTaintRule
		want     bool
	}{
		"created":               {nil, rule(ex, "k", d), true},
		"created for all":       {nil, rule(ex, "k", &selector{}), true},
		"created for nothing":   {nil, rule(ex, "k", nil), false},
		"created, NoSchedule":   {nil, rule(no, "k", d), false},
		"created, None":         {nil, rule(none, "k", &selector{}), false},
		"preview is made real":  {rule(none, "k", d), rule(ex, "k", d), true},
		"cordon is made real":   {rule(no, "k", d), rule(ex, "k", d), true},
		"stopped":               {rule(ex, "k", d), rule(none, "k", d), false},
		"stopped and widened":   {rule(ex, "k", d), rule(no, "k", &selector{}), false},
		"unchanged":             {rule(ex, "k", d), rule(ex, "k", d), false},
		"narrowed":              {rule(ex, "k", d), rule(ex, "k", p), false},
		"narrowed to nothing":   {rule(ex, "k", d), rule(ex, "k", nil), false},
		"widened":               {rule(ex, "k", p), rule(ex, "k", d), true},
		"widened to all":        {rule(ex, "k", p), rule(ex, "k", &selector{}), true},
		"all to one":            {rule(ex, "k", &selector{}), rule(ex, "k", p), false},
		"moved":                 {rule(ex, "k", p), rule(ex, "k", &selector{Driver: s("d"), Pool: s("q")}), true},
		"from nothing":          {rule(ex, "k", nil), rule(ex, "k", p), true},
		"tolerated differently": {rule(ex, "k", d), rule(ex, "l", d), true},
		"waits":                 {due(time.Hour, d), due(time.Hour, p), false},
		"begins":                {due(time.Hour, d), due(0, d), true},
		"waits less":            {due(time.Hour, d), due(time.Minute, d), true},
		"waits longer":          {due(time.Hour, d), due(2*time.Hour, d), true},
		"begins to wait":        {due(-time.Hour, d), due(time.Hour, d), true},
		"narrowed, time of now": {due(-time.Hour, d), due(time.Minute, p), false},
		"began earlier":         {due(-time.Hour, d), due(-2*time.Hour, d), false},
		"without a time":        {due(time.Hour, d), rule(ex, "k", d), true},
		"stops to wait":         {due(time.Hour, d), rule(none, "k", d), false},
	} {
		if got := guard.Widens(tt.old, tt.new, now); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestWidensDrain: a drain that begins, that goes on after a pause or a dry run, that gets
// faster or other windows, evicts what it did not evict before.
func TestWidensDrain(t *testing.T) {
	drain := func(paused, dry bool, rate int32) *v1alpha1.DeviceDrain {
		d := &v1alpha1.DeviceDrain{Spec: v1alpha1.DeviceDrainSpec{Paused: paused, DryRun: dry}}
		if rate > 0 {
			d.Spec.EvictionsPerMinute = &rate
		}
		return d
	}
	at := func(from string, d *v1alpha1.DeviceDrain) *v1alpha1.DeviceDrain {
		d.Spec.Windows = []v1alpha1.Window{{From: from, To: "05:00"}}
		return d
	}
	for name, tt := range map[string]struct {
		old, new *v1alpha1.DeviceDrain
		want     bool
	}{
		"created":            {nil, drain(false, false, 0), true},
		"created, paused":    {nil, drain(true, false, 0), false},
		"created, dry run":   {nil, drain(false, true, 0), false},
		"unchanged":          {drain(false, false, 5), drain(false, false, 5), false},
		"resumed":            {drain(true, false, 5), drain(false, false, 5), true},
		"made real":          {drain(false, true, 5), drain(false, false, 5), true},
		"paused":             {drain(false, false, 5), drain(true, false, 50), false},
		"faster":             {drain(false, false, 5), drain(false, false, 6), true},
		"slower":             {drain(false, false, 5), drain(false, false, 4), false},
		"to the default":     {drain(false, false, 5), drain(false, false, 0), true},
		"from the default":   {drain(false, false, 0), drain(false, false, 5), false},
		"other windows":      {at("22:00", drain(false, false, 5)), at("23:00", drain(false, false, 5)), true},
		"no windows":         {at("22:00", drain(false, false, 5)), drain(false, false, 5), true},
		"windows":            {drain(false, false, 5), at("23:00", drain(false, false, 5)), true},
		"the same windows":   {at("22:00", drain(false, false, 5)), at("22:00", drain(false, false, 5)), false},
		"paused, windows":    {drain(false, false, 5), at("22:00", drain(true, false, 5)), false},
		"dry run and paused": {drain(true, true, 5), drain(false, true, 5), false},
	} {
		if got := guard.WidensDrain(tt.old, tt.new); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
