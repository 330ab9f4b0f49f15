package evictor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// TestJournalOfManyRules: one rule per device, and all but one have only pending pods. The journal has
// the rules of the pods that are next, and of those evicted before.
func TestJournalOfManyRules(t *testing.T) {
	const rules = 60
	slice := sliceOf(1)
	slice.Spec.Devices = nil
	objects := []runtime.Object{slice}
	for i := range rules {
		device := fmt.Sprint("gpu-", i)
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: device})
		var tolerations []resourceapi.DeviceToleration
		if i > 0 {
			tolerations = append(tolerations, tolerate(noExecute, ptr.To(int64(300))))
		}
		objects = append(objects, both(podOn("ns", device, device, tolerations...))...)
		objects = append(objects, ruleOn(fmt.Sprint("rule-", i), device, seconds(0)))
	}
	options := tripped()
	options.Limits.PerSecond = 1 // so that ten pods are next
	journal := &book{}
	options.Journal = journal
	inBubble(t, options, objects, func(b *bubble) {
		b.pass(time.Minute)
		b.expect(deletions{"ns/gpu-0": 0})
		b.controller.locked(func() {
			journal.text, _ = json.Marshal(b.controller.record(b.controller.states.of(nameOf("ns", "gpu-1")), time.Now()))
		})
		var record journalRecord
		if err := json.Unmarshal(journal.text, &record); err != nil || len(record.Causes) > 12 || len(record.Next) < 10 {
			t.Errorf("%d causes of %d rules are recorded, %d pods; %v", len(record.Causes), rules, len(record.Next), err)
		}
		if !slices.ContainsFunc(record.Causes, func(of recordedCause) bool { return of.Rule == "rule-0" && of.Pods == 1 }) {
			t.Errorf("%+v has no rule-0", record.Causes)
		}
		for _, pod := range record.Next {
			if len(pod.Causes) != 1 || record.Causes[pod.Causes[0]].Rule != types.UID("rule-"+strings.TrimPrefix(pod.Name, "gpu-")) {
				t.Errorf("%+v has wrong causes", pod)
			}
		}
		b.stop()
		b.start(options)
		b.pass(7 * time.Minute)
		if len(b.deleted) != rules {
			t.Errorf("%d of %d deleted", len(b.deleted), rules)
		}
	})
}

// TestLargeJournal: a record of all evictions within ten minutes at the default rate, one rule each, fits
// into a ConfigMap, and is replaced by a small one. A larger one is an error, not a part.
func TestLargeJournal(t *testing.T) {
	client := fake.NewClientset()
	j := ConfigMapJournal{Client: client, Namespace: "dra-steward", Name: "journal"}
	for _, evicted := range []int{1, defaultPerSecond * int(breakerCalm/time.Second), 2} {
		text := recordOf(evicted)
		if err := j.Save(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		kept, err := client.CoreV1().ConfigMaps("dra-steward").Get(t.Context(), "journal", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if size := len(kept.Data[journalKey]) + len(kept.BinaryData[packedKey]); size > corev1.MaxSecretSize {
			t.Errorf("%d evicted pods: %d bytes, a ConfigMap holds 1 MiB", evicted, size)
		}
		if got, err := j.Load(t.Context()); err != nil || strings.TrimSpace(string(got)) != string(text) {
			t.Errorf("%d evicted pods: loaded %d bytes, %v; saved %d", evicted, len(got), err, len(text))
		}
	}
	client.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		t.Error("a record is saved that does not fit")
		return false, nil, nil
	})
	if err := j.Save(t.Context(), recordOf(100_000)); err == nil || !strings.Contains(err.Error(), "larger than 1024000 bytes") {
		t.Error(err)
	}
}

// recordOf is a record of rules that have evicted one pod each.
func recordOf(evicted int) []byte {
	var record journalRecord
	room := mostHashes
	for i := range evicted {
		namespace, last := fmt.Sprint("team-", i%100), bubbleStart.Add(time.Duration(i)*50123456*time.Nanosecond)
		its := portion{pods: 1, last: last}
		for _, of := range []*impact{&its.impact, &its.evicted} {
			of.change(Reason{Device: DeviceID{Driver: "gpu.example.com", Pool: fmt.Sprint("node-", i/8), Device: fmt.Sprint("gpu-", i%8)},
				Claim: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("train-", i)}}, +1)
		}
		portions := map[string]recordedPortion{namespace: its.record()}
		room = within(portions, room)
		record.Causes = append(record.Causes, recordedCause{
			Rule: uuid.NewUUID(), Evicted: 1, Pods: 1, Namespaces: []string{namespace}, Portions: portions, Devices: 1, Claims: 1,
			Drivers: []string{"gpu.example.com"}, Last: last,
		})
	}
	text, _ := json.Marshal(record)
	return text
}
