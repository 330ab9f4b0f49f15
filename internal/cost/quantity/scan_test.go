package quantity_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dra-steward/dra-steward/internal/cost/quantity"
)

func TestScan(t *testing.T) {
	const long = "1e4194967296"
	slice := func(value string) string {
		return `{"spec":{"devices":[{"name":"0","capacity":{"memory":{"value":` + value + `}}}]}}`
	}
	for _, test := range []struct {
		text, want string
		into       any
	}{
		{slice(`"` + long + `"`), "spec.devices[0].capacity[memory].value: Invalid value: \"1e4194967296\": must have an exponent between -999 and 999", &resourceapi.ResourceSlice{}},
		{slice(long), "spec.devices[0].capacity[memory].value", &resourceapi.ResourceSlice{}},
		{slice(`1E-99999`), "spec.devices[0].capacity[memory].value", &resourceapi.ResourceSlice{}},
		{slice(`"1\u0065-99999"`), "spec.devices[0].capacity[memory].value", &resourceapi.ResourceSlice{}},
		{slice(`"\u0031e-99999"`), "spec.devices[0].capacity[memory].value", &resourceapi.ResourceSlice{}},
		{slice(`"\u00a01e-99999\t"`), "spec.devices[0].capacity[memory].value", &resourceapi.ResourceSlice{}},
		{slice(`"` + "\u2003" + `1e-99999"`), "spec.devices[0].capacity[memory].value", &resourceapi.ResourceSlice{}},
		{slice(`" 1e-99999 "`), "spec.devices[0].capacity[memory].value", &resourceapi.ResourceSlice{}},
		{slice(`"` + strings.Repeat("1", 2000) + `"`), "must have at most 1024 digits", &resourceapi.ResourceSlice{}},
		{slice(`"1"`) + " " + slice(`"1e-99999"`), "", &resourceapi.ResourceSlice{}}, // the decoder refuses it
		{strings.Replace(slice(`"1e-99999"`), "capacity", `c\u0061pacity`, 1), "spec.devices[0].capacity[memory].value", &resourceapi.ResourceSlice{}},
		{strings.Replace(slice(`"1e-99999"`), "capacity", `CAPACITY`, 1), "spec.devices[0].CAPACITY[memory].value", &resourceapi.ResourceSlice{}},
		{strings.Replace(slice(`"1e-99999"`), `"value"`, `"value":"1","value"`, 1), "capacity[memory].value", &resourceapi.ResourceSlice{}},
		{strings.Replace(slice(`"1e-99999"`), `}}}]`, `,"value":"1"}}}]`, 1), "capacity[memory].value", &resourceapi.ResourceSlice{}},
		{slice(`"1e-99999"`) + "x", "capacity[memory].value", &resourceapi.ResourceSlice{}},
		{slice(`"1e-99999"`)[:75], "capacity[memory].value", &resourceapi.ResourceSlice{}},
		{slice(`"1e-99999"`), "", &struct{ Spec json.RawMessage }{}},
		{slice(`["1e-99999"]`), "", &resourceapi.ResourceSlice{}},
		{`[` + slice(`"1e-99999"`) + `]`, "", &resourceapi.ResourceSlice{}},
		{`[` + slice(`"1e-99999"`) + `]`, "[0].spec.devices[0].capacity[memory].value", &[]*resourceapi.ResourceSlice{}},
		{`"1e-99999"`, "must have an exponent", new(resource.Quantity)},
		{`{"metadata":{"name":"1e-99999","uid":"4","labels":{"commit":"6e12345","1e-99999":"x","n":"a \" 1e-99999"}}}`, "", &resourceapi.ResourceSlice{}},
		{`{"spec":{"devices":[{"name":"1e99999","attributes":{"n":{"string":"1e99999"}}}]}}`, "", &resourceapi.ResourceSlice{}},
		{`{"spec":{"devices":{"config":[{"opaque":{"driver":"d","parameters":{"value":1e-99999}}}]}}}`, "", &resourceapi.ResourceClaim{}},
		{`{"spec":{"spec":{"devices":{"requests":[{"exactly":{"capacity":{"requests":{"a":"1e-99999"}}}}]}}}}`,
			"spec.spec.devices.requests[0].exactly.capacity.requests[a]", &resourceapi.ResourceClaimTemplate{}},
		{`{"spec":{"containers":[{"resources":{"requests":{"example.com/a":"1\u0065-99999"}}}],"overhead":{"cpu":1}}}`, "spec.containers[0].resources.requests[example.com/a]", &corev1.Pod{}},
		{`{"metadata":{"name":"1e-99999"},"spec":` + strings.Repeat("[", 100_000), "", &corev1.Pod{}},
		{`"`, "", &corev1.Pod{}}, {`"1`, "", &corev1.Pod{}}, {``, "", &corev1.Pod{}}, {`""`, "", &corev1.Pod{}}, {`"1e-99999\`, "", &corev1.Pod{}},
	} {
		err := quantity.Scan([]byte(test.text), test.into)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.120s: got %v, want %q", test.text, err, test.want)
		}
	}
}

// FuzzScan: what passes is soon decoded.
func FuzzScan(f *testing.F) {
	for text := range numbers {
		quoted, _ := json.Marshal(text)
		f.Add(`{"spec":{"devices":[{"name":"0","capacity":{"memory":{"value":` + string(quoted) + `}}}]}}`)
	}
	f.Fuzz(func(t *testing.T, text string) {
		start := time.Now()
		_ = quantity.Unmarshal([]byte(text), new(resourceapi.ResourceSlice))
		if took := time.Since(start); took > time.Second/4+time.Duration(len(text))*time.Microsecond {
			t.Errorf("%.100q takes %v", text, took)
		}
	})
}

// TestScanOfRows: the work grows with the text, not faster.
func TestScanOfRows(t *testing.T) {
	for name, text := range map[string]string{
		"quotes": strings.Repeat(`"\"`, 1<<20), "escapes": `"` + strings.Repeat(`\\`, 1<<20), "escaped quotes": `"1` + strings.Repeat(`\"`, 1<<20) + `"`,
		"exponents": `["` + strings.Repeat("1e-1e-1e-", 1<<16) + `"]`, "numbers": "[" + strings.Repeat("1e-99,", 1<<18) + "1]", "lists": strings.Repeat("[", 1<<20),
		"labels": `{"metadata":{"labels":{` + strings.Repeat(`"1e-99999":"1e-99999",`, 1<<16) + `"a":"b"}}}`,
	} {
		start := time.Now()
		err := quantity.Scan([]byte(text), &resourceapi.ResourceSlice{})
		if took := time.Since(start); err != nil || took > 2*time.Second {
			t.Errorf("%s: %v, took %v", name, err, took)
		}
	}
}

// BenchmarkScan is the part of a full slice's decoding that the look for such numbers takes.
func BenchmarkScan(b *testing.B) {
	slice := &resourceapi.ResourceSlice{}
	slice.Name, slice.UID = "node-1-gpu.example.com-abcde", "6f1c2d3e-4b1e-4c5e-8a7e-123456789012"
	model, index := "NVIDIA H100 80GB HBM3", int64(1)
	for range 128 {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: "gpu-0",
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"productName": {StringValue: &model}, "index": {IntValue: &index}},
			Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}}})
	}
	data, err := json.Marshal(slice)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("scan", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := quantity.Scan(data, slice); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := json.Unmarshal(data, &resourceapi.ResourceSlice{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
