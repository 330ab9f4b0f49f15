//go:build unix

package evictor_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// BenchmarkLatency measures the time from the event of a taint on one device, among 10,000
// claims, to the call that deletes its pod. Run it at most 1,000 times.
func BenchmarkLatency(b *testing.B) {
	klog.SetLogger(logr.Discard())
	const n = 10000
	taint := resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute, TimeAdded: ptr.To(metav1.NewTime(time.Now().Add(-time.Second)))}
	for _, event := range []struct {
		name    string
		happens func(c *cluster, i int)
	}{
		{"slice", func(c *cluster, i int) {
			slice := benchSlice(i)
			slice.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{taint}
			c.slices.set(version(slice, 2))
		}},
		{"rule", func(c *cluster, i int) {
			rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("rule-", i), UID: types.UID(fmt.Sprint("rule-", i)), Generation: 1, ResourceVersion: "1"}}
			rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: ptr.To(benchDriver), Pool: ptr.To(fmt.Sprint("node-", i)), Device: ptr.To("gpu-0")}
			rule.Spec.Taint = taint
			c.rules.set(rule)
		}},
	} {
		for _, contender := range contenders() {
			b.Run(event.name+"/"+contender.name, func(b *testing.B) {
				c := newCluster(n)
				server := newAPIServer(b, c.pods.feed, -1)
				stop := contender.start(b, c, server.client(b, 1000, 1500))
				quiet()
				var took []time.Duration
				for b.Loop() {
					server.want.Store(int64(len(took) + 1))
					begin := time.Now()
					event.happens(c, len(took))
					took = append(took, (<-server.done).Sub(begin))
					pause(5 * time.Millisecond)
				}
				slices.Sort(took)
				b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
				b.ReportMetric(took[len(took)*95/100].Seconds()*1000, "p95-ms")
				stop()
			})
		}
	}
}
