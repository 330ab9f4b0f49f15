package guard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/guard"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// hit affects the devices from one to before another, each with a pod.
func hit(driver string, from, to int) (h guard.Hit) {
	for i := from; i < to; i++ {
		name := types.NamespacedName{Namespace: "team", Name: fmt.Sprintf("%s-%03d", driver, i)}
		h.Devices = append(h.Devices, guard.Device{Driver: driver, Pool: "p", Name: fmt.Sprint(i)})
		h.Claims, h.Pods = append(h.Claims, name), append(h.Pods, guard.Pod{NamespacedName: name, UID: "uid"})
	}
	return h
}

// named gives the pods other UIDs.
func named(h guard.Hit, uid types.UID) guard.Hit {
	for n := range h.Pods {
		h.Pods[n].UID = uid
	}
	return h
}

func began(object string, ago time.Duration, h guard.Hit) guard.Start {
	return guard.Start{Object: object, Time: noon.Add(-ago), Hit: h}
}

func TestWindow(t *testing.T) {
	window := guard.Window{Length: 10 * time.Minute, Thresholds: guard.Thresholds{Pods: 20, Namespaces: 5, Percent: 25}, Published: func(driver string) int {
		return map[string]int{"a": 100, "b": 10_000}[driver]
	}}
	namespaces := guard.Hit{}
	for i := range 5 {
		namespaces.Pods = append(namespaces.Pods, guard.Pod{NamespacedName: types.NamespacedName{Namespace: fmt.Sprint(i), Name: "p"}})
	}
	for name, tt := range map[string]struct {
		hit          guard.Hit
		acknowledged string
		starts       []guard.Start
		// want is what is too large, until when that is so.
		want, until string
	}{
		"alone":                 {hit("a", 0, 90), "", nil, "", ""},
		"within the thresholds": {hit("a", 10, 20), "", []guard.Start{began("x", 0, hit("a", 0, 10))}, "", ""},
		"too many pods":         {hit("a", 10, 21), "", []guard.Start{began("x", time.Minute, hit("a", 0, 10))}, "21 pods are more than the threshold of 20", "12:09"},
		"the same pods":         {hit("a", 5, 15), "", []guard.Start{began("x", time.Minute, hit("a", 0, 10))}, "", ""},
		"pods that follow others under their names": {named(hit("a", 0, 11), "next"), "", []guard.Start{began("x", time.Minute, hit("a", 0, 10))}, "21 pods are more than the threshold of 20", "12:09"},
		"it adds nothing":             {hit("a", 0, 5), "", []guard.Start{began("x", time.Minute, hit("a", 0, 80))}, "", ""},
		"it affects nothing":          {guard.Hit{}, "", []guard.Start{began("x", time.Minute, hit("a", 0, 80))}, "", ""},
		"before the window":           {hit("a", 10, 21), "", []guard.Start{began("x", 10*time.Minute, hit("a", 0, 10))}, "", ""},
		"a clock that is ahead":       {hit("a", 10, 21), "", []guard.Start{began("x", -time.Hour, hit("a", 0, 10))}, "21 pods are more than the threshold of 20", "13:10"}, // until then it counts
		"two days ahead":              {hit("a", 10, 21), "", []guard.Start{began("x", -48*time.Hour, hit("a", 0, 10))}, "21 pods are more than the threshold of 20", ""},
		"the first of two expires":    {hit("a", 20, 22), "", []guard.Start{began("x", 3*time.Minute, hit("a", 10, 20)), began("y", 8*time.Minute, hit("a", 0, 10))}, "22 pods are more than the threshold of 20", "12:02"},
		"acknowledged":                {hit("a", 10, 30), "pods<=30", []guard.Start{began("x", 0, hit("a", 0, 10))}, "", ""},
		"acknowledged for itself":     {hit("a", 10, 30), "pods<=20", []guard.Start{began("x", 0, hit("a", 0, 10))}, "30 pods are more than the acknowledged 20", "12:10"},
		"never by waiting":            {hit("a", 10, 40), "", []guard.Start{began("x", 0, hit("a", 0, 10))}, "40 pods are more than the threshold of 20, 40 % of the devices of the drivers are more than the threshold of 25 %", ""},
		"namespaces":                  {hit("a", 0, 1), "", []guard.Start{began("x", 0, namespaces)}, "6 namespaces are more than the threshold of 5", "12:10"},
		"share":                       {hit("a", 0, 1), "pods<=99", []guard.Start{began("x", 0, hit("a", 1, 40))}, "", ""}, // pods answer for it
		"diluted by another driver":   {guard.Hit{Devices: hit("a", 25, 26).Devices}, "", []guard.Start{began("x", 0, guard.Hit{Devices: hit("a", 0, 25).Devices}), began("y", 0, guard.Hit{Devices: hit("b", 0, 900).Devices})}, "26 % of the devices of the drivers are more than the threshold of 25 %", "12:10"},
		"diluted by the write itself": {guard.Hit{Devices: append(hit("a", 25, 26).Devices, hit("b", 0, 900).Devices...)}, "", []guard.Start{began("x", 0, guard.Hit{Devices: hit("a", 0, 25).Devices})}, "26 % of the devices of the drivers are more than the threshold of 25 %", "12:10"},
		"another driver was hit":      {guard.Hit{Devices: hit("b", 0, 2).Devices}, "", []guard.Start{began("x", 0, guard.Hit{Devices: hit("a", 0, 90).Devices})}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			sum, exceeds := window.Exceeds(noon, tt.hit, ceiling(t, tt.acknowledged), tt.starts)
			var over []string
			for _, e := range sum.Over {
				over = append(over, e.String())
			}
			if got := strings.Join(over, ", "); got != tt.want || exceeds != (tt.want != "") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			until := ""
			if !sum.Until.IsZero() {
				until = sum.Until.Format("15:04")
			}
			if until != tt.until {
				t.Errorf("until %q, want %q", until, tt.until)
			}
			if none, exceeds := (guard.Window{Thresholds: window.Thresholds}).Exceeds(noon, tt.hit, nil, tt.starts); exceeds {
				t.Errorf("a window of 0 sums %+v", none)
			}
		})
	}
}

// TestSumSays reads what the author of a rule reads.
func TestSumSays(t *testing.T) {
	window := guard.Window{Length: 10 * time.Minute, Thresholds: guard.DefaultThresholds()}
	sum, _ := window.Exceeds(noon.Add(30*time.Second), hit("a", 18, 21), nil, []guard.Start{
		began("DeviceTaintRule small", time.Minute, hit("a", 0, 1)), began("DeviceTaintRule large", 2*time.Minute, hit("a", 1, 17)), began("DeviceDrain node-1", 3*time.Minute, hit("a", 17, 18))})
	const want = "together with the 3 evictions that began within the last 10m, 21 pods are more than the threshold of 20: DeviceTaintRule large (16 pods), " +
		"DeviceDrain node-1 (1 pod), DeviceTaintRule small (1 pod); select fewer devices; or wait until 12:07 UTC; " +
		`or, if this is intended, annotate it with dra-steward.io/acknowledged-impact: "pods<=21,namespaces<=1"`
	if got := sum.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAtRate(t *testing.T) {
	if got := hit("a", 0, 30).AtRate(2, 10*time.Minute); len(got.Pods) != 20 || len(got.Devices) != 30 {
		t.Errorf("%d pods, %d devices", len(got.Pods), len(got.Devices))
	}
	if got := hit("a", 0, 3).AtRate(60, 10*time.Minute); len(got.Pods) != 3 {
		t.Errorf("%d pods", len(got.Pods))
	}
}

// TestLaterBeginnings: an eviction that begins again later counts with those that begin then, and with more that are made with it.
func TestLaterBeginnings(t *testing.T) {
	now := time.Unix(1e9, 0)
	night := now.Add(10 * time.Hour)
	pods := func(of string, count int) (hit guard.Hit) {
		for n := range count {
			hit.Pods = append(hit.Pods, guard.Pod{NamespacedName: types.NamespacedName{Namespace: of, Name: fmt.Sprint(n)}})
		}
		return hit
	}
	begun := guard.Begun(func(object string, at time.Time) (starts []guard.Start, omitted time.Time) {
		if object != "DeviceDrain new" {
			t.Errorf("asked for %s", object)
		}
		if at.Equal(night) {
			starts = []guard.Start{{Object: "DeviceDrain others", Time: at, Hit: pods("others", 40)}}
		}
		return starts, omitted
	})
	w := guard.Window{Length: guard.DefaultWindow, Thresholds: guard.DefaultThresholds()}
	step := guard.Step{Object: "DeviceDrain new", Does: "the drain", Hit: pods("team", 1), Annotate: "the roll", Begins: []time.Time{now}}
	if why, _ := w.Refuse(now, step, begun); why != "" {
		t.Errorf("it begins now: %s", why)
	}
	if why, _ := w.Refuse(now, step, begun.With([]guard.Start{{Object: "DeviceDrain first", Time: now, Hit: pods("first", 40)}})); why == "" {
		t.Error("it begins with 40 others")
	}
	step.Begins = nil
	if why, _ := w.Refuse(now, step, guard.Begun(nil).With([]guard.Start{{Object: "DeviceDrain first", Time: now, Hit: pods("first", 40)}})); why == "" {
		t.Error("without a time it begins with 40 others")
	}
	step.Begins = []time.Time{now, night}
	if why, until := w.Refuse(now, step, begun); why == "" || !until.Equal(night.Add(guard.DefaultWindow)) {
		t.Errorf("it begins with others in the night: %q until %s", why, until)
	}
	if why, _ := w.Refuse(now, step, guard.Begun(nil).With(nil)); why != "" {
		t.Errorf("there are no others: %s", why)
	}
}
