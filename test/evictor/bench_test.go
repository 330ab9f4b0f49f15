//go:build unix

package evictor_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/devicetainteviction"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

const (
	benchDriver     = "gpu.example.com"
	devicesPerSlice = 64
)

// A cluster is what the controllers read: pods with a claim each, for a device each.
type cluster struct {
	pods        pods
	claims      claims
	slices      published
	rules       rules
	classes     classes
	n           int
	tolerations []resourceapi.DeviceToleration
}

func newCluster(n int, tolerations ...resourceapi.DeviceToleration) *cluster {
	c := &cluster{pods{newFeed()}, claims{newFeed()}, published{newFeed()}, rules{newFeed()}, classes{newFeed()}, n, tolerations}
	for i := range n {
		pod, claim := c.pod(i)
		if err := c.pods.indexer.Add(pod); err != nil {
			panic(err)
		}
		if err := c.claims.indexer.Add(claim); err != nil {
			panic(err)
		}
	}
	for node := range (n + devicesPerSlice - 1) / devicesPerSlice {
		if err := c.slices.indexer.Add(benchSlice(node)); err != nil {
			panic(err)
		}
	}
	return c
}

func (c *cluster) pod(i int) (*corev1.Pod, *resourceapi.ResourceClaim) {
	name, namespace := fmt.Sprint("pod-", i), fmt.Sprint("ns-", i%10)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
	pod.Spec.NodeName = nodeOf(i)
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("claim-" + name)}}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	claim.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{{
		Request: "gpu", Driver: benchDriver, Pool: nodeOf(i), Device: deviceOf(i), Tolerations: c.tolerations,
	}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
	return pod, claim
}

func nodeOf(i int) string   { return fmt.Sprint("node-", i/devicesPerSlice) }
func deviceOf(i int) string { return fmt.Sprint("gpu-", i%devicesPerSlice) }

func benchSlice(node int) *resourceapi.ResourceSlice {
	name := fmt.Sprint("node-", node)
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1"}}
	slice.Spec.Driver, slice.Spec.NodeName = benchDriver, &name
	slice.Spec.Pool = resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}
	for i := range devicesPerSlice {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i)})
	}
	return slice
}

// tainting is a rule for all devices, or one.
func tainting(effect resourceapi.DeviceTaintEffect, device string, generation int64) *resourceapi.DeviceTaintRule {
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule", UID: "rule", Generation: generation, ResourceVersion: fmt.Sprint(generation)}}
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: ptr.To(benchDriver)}
	if device != "" {
		rule.Spec.DeviceSelector.Pool, rule.Spec.DeviceSelector.Device = ptr.To("node-0"), &device
	}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/broken", Effect: effect, TimeAdded: ptr.To(metav1.Now())}
	return rule
}

// A contender starts a controller on a cluster and returns how to end it.
type contender struct {
	name  string
	start func(tb testing.TB, c *cluster, client kubernetes.Interface) (stop func())
}

var inTreeContender = contender{"inTree", func(tb testing.TB, c *cluster, client kubernetes.Interface) func() {
	controller := devicetainteviction.New(client, c.pods, c.claims, c.slices, c.rules, c.classes, "device-taint-eviction-controller")
	return running(tb, func(ctx context.Context) error { return controller.Run(ctx, 8) })
}}

// oursContender evicts as fast as the client lets it, like the other one.
var oursContender = contender{"ours", func(tb testing.TB, c *cluster, client kubernetes.Interface) func() {
	index := &usage.Index{}
	synced, _, err := index.Listen(usage.Informers{Claims: c.claims.feed, Pods: c.pods.feed})
	if err != nil {
		tb.Fatal(err)
	}
	devices := tracker.New(tracker.Options{Sources: tracker.Sources{Slices: c.slices.feed, Rules: c.rules.feed}})
	// Its events have a client of their own, as the program has it.
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&coreclient.EventSinkImpl{Interface: client.CoreV1().Events("")})
	controller, err := evictor.New(evictor.Options{
		Client: client, Tracker: devices, Rules: c.rules.feed, Usage: index, UsageSynced: synced, Mode: evictor.ModeFull,
		Limits: evictor.Limits{PerSecond: 1000}, Recorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "ours"}),
	})
	if err != nil {
		tb.Fatal(err)
	}
	end := running(tb, devices.Run, controller.Run)
	return func() {
		end()
		broadcaster.Shutdown()
	}
}}

func contenders() []contender { return []contender{inTreeContender, oursContender} }

// running runs parts until they are stopped.
func running(tb testing.TB, parts ...func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	var group sync.WaitGroup
	for _, run := range parts {
		group.Go(func() {
			if err := run(ctx); err != nil {
				tb.Error(err)
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}

// BenchmarkEvict evicts all pods for one rule, through a real client and HTTP: from the
// rule to the last deletion. The limit of the client is the same for both; that of 20
// per second is the default of kube-controller-manager.
func BenchmarkEvict(b *testing.B) {
	klog.SetLogger(logr.Discard())
	for _, size := range []struct {
		pods  int
		qps   float32
		burst int
		long  bool
	}{{200, 20, 30, false}, {1000, 1000, 1500, false}, {10000, 1000, 1500, true}} {
		for _, contender := range contenders() {
			b.Run(fmt.Sprintf("pods=%d/qps=%g/%s", size.pods, size.qps, contender.name), func(b *testing.B) {
				if size.long && os.Getenv("EVICTOR_LONG") == "" {
					b.Skip("make bench-long runs it")
				}
				for b.Loop() {
					evictOnce(b, contender, size.pods, size.qps, size.burst)
				}
			})
		}
	}
}

func evictOnce(b *testing.B, contender contender, n int, qps float32, burst int) {
	c := newCluster(n)
	server := newAPIServer(b, c.pods.feed, n)
	stop := contender.start(b, c, server.client(b, qps, burst))
	quiet()
	begin, used := time.Now(), processorTime()
	c.rules.set(tainting(resourceapi.DeviceTaintEffectNoExecute, "", 1))
	last := <-server.done
	b.ReportMetric(last.Sub(begin).Seconds(), "s/last-delete")
	b.ReportMetric(float64(n)/last.Sub(begin).Seconds(), "pods/s")
	b.ReportMetric((processorTime()-used).Seconds()*1000/float64(n), "cpu-ms/pod")
	b.ReportMetric(float64(server.calls.Load())/float64(n), "calls/pod")
	b.ReportMetric(float64(server.events.Load())/float64(n), "events/pod")
	stop()
	server.Close()
}

// quiet waits until the process has nothing to do. One look does not tell: on a busy
// machine a process may get no processor for a while.
func quiet() {
	for calm := 0; calm < 5; calm++ {
		used := processorTime()
		pause(100 * time.Millisecond)
		if processorTime()-used >= time.Millisecond {
			calm = -1
		}
	}
}

// forEver tolerates the taints of the benchmarks, so that no pod is evicted.
func forEver() resourceapi.DeviceToleration {
	return resourceapi.DeviceToleration{Key: "example.com/broken", Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute}
}

// BenchmarkEvents measures the processor time that what happens in a cluster of 10,000
// claims takes, until nothing is left to do.
func BenchmarkEvents(b *testing.B) {
	klog.SetLogger(logr.Discard())
	const n = 10000
	// The slices are made before, so that making them is in none of the figures.
	var flips [2][]*resourceapi.ResourceSlice
	for node := range 100 {
		tainted := benchSlice(node)
		tainted.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute, TimeAdded: ptr.To(metav1.Now())}}
		flips[0], flips[1] = append(flips[0], tainted), append(flips[1], benchSlice(node))
	}
	for _, event := range []struct {
		name        string
		tolerations []resourceapi.DeviceToleration
		before      func(*cluster)
		happens     func(c *cluster, i int)
	}{
		// What measuring itself takes.
		{"nothing", nil, nil, func(_ *cluster, i int) {
			for _, slice := range flips[i%2] {
				version(slice, i+2)
			}
		}},
		{"one-device-rule", []resourceapi.DeviceToleration{forEver()}, nil, func(c *cluster, i int) {
			c.rules.set(tainting(resourceapi.DeviceTaintEffectNoExecute, "gpu-0", int64(i+1)))
			c.rules.remove("rule")
		}},
		// The same with 20 ms between both, so that no part merges them.
		{"one-device-rule-20ms", []resourceapi.DeviceToleration{forEver()}, nil, func(c *cluster, i int) {
			c.rules.set(tainting(resourceapi.DeviceTaintEffectNoExecute, "gpu-0", int64(i+1)))
			pause(20 * time.Millisecond)
			c.rules.remove("rule")
		}},
		// A rule for all devices, which all pods tolerate, comes and goes.
		{"driver-rule", []resourceapi.DeviceToleration{forEver()}, nil, func(c *cluster, i int) {
			c.rules.set(tainting(resourceapi.DeviceTaintEffectNoExecute, "", int64(i+1)))
			pause(300 * time.Millisecond)
			c.rules.remove("rule")
			pause(300 * time.Millisecond)
		}},
		// A kubelet writes the status of 100 pods, of which nothing matters.
		{"heartbeat", []resourceapi.DeviceToleration{forEver()}, nil, func(c *cluster, i int) {
			for p := range 100 {
				pod, _ := c.pod(p)
				pod.ResourceVersion = fmt.Sprint(i + 2)
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastProbeTime: metav1.Now()}}
				c.pods.set(pod)
			}
		}},
		// What making the pods of that takes.
		{"heartbeat-nothing", []resourceapi.DeviceToleration{forEver()}, nil, func(c *cluster, i int) {
			for p := range 100 {
				pod, _ := c.pod(p)
				pod.ResourceVersion = fmt.Sprint(i + 2)
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastProbeTime: metav1.Now()}}
			}
		}},
		// The driver of one node taints a device.
		{"single-flip", []resourceapi.DeviceToleration{forEver()}, nil, func(c *cluster, i int) {
			c.slices.set(version(flips[i%2][0], i+2))
		}},
		// Drivers of 100 nodes taint a device each, and take the taints back in the next turn.
		{"slice-taint-flip", []resourceapi.DeviceToleration{forEver()}, nil, func(c *cluster, i int) {
			for _, slice := range flips[i%2] {
				c.slices.set(version(slice, i+2))
			}
		}},
		// A changed rule is the only way to have the preview of Kubernetes counted again.
		{"none-preview/changed-rule", nil, func(c *cluster) {
			c.rules.set(tainting(resourceapi.DeviceTaintEffectNone, "", 1))
		}, func(c *cluster, i int) {
			c.rules.set(tainting(resourceapi.DeviceTaintEffectNone, "", int64(i+2)))
		}},
		// Ours is counted again for a pod that comes or goes, that of Kubernetes is not.
		{"none-preview/changed-pod", nil, func(c *cluster) {
			c.rules.set(tainting(resourceapi.DeviceTaintEffectNone, "", 1))
		}, func(c *cluster, i int) {
			pod, _ := c.pod(i % n)
			c.pods.remove(pod.Namespace + "/" + pod.Name)
			c.pods.set(pod)
		}},
	} {
		for _, contender := range contenders() {
			b.Run(event.name+"/"+contender.name, func(b *testing.B) {
				c := newCluster(n, event.tolerations...)
				server := newAPIServer(b, c.pods.feed, -1)
				stop := contender.start(b, c, server.client(b, 1000, 1500))
				if event.before != nil {
					event.before(c)
				}
				quiet()
				used, i := processorTime(), 0
				for b.Loop() {
					event.happens(c, i)
					i++
					pause(20 * time.Millisecond) // so that what follows each is not merged
				}
				quiet()
				used = processorTime() - used
				b.ReportMetric(used.Seconds()*1e6/float64(i), "cpu-µs/op")
				// The same without what a program takes that is awake as often.
				awake := processorTime()
				for range i {
					pause(20 * time.Millisecond)
				}
				quiet()
				b.ReportMetric((used-(processorTime()-awake)).Seconds()*1e6/float64(i), "event-cpu-µs/op")
				stop()
			})
		}
	}
}

// version is a slice with another resource version, and all else shared.
func version(slice *resourceapi.ResourceSlice, version int) *resourceapi.ResourceSlice {
	its := *slice
	its.ResourceVersion = fmt.Sprint(version)
	return &its
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

// BenchmarkMemory measures what a controller keeps for a claim and its pod, beside the
// objects themselves.
func BenchmarkMemory(b *testing.B) {
	klog.SetLogger(logr.Discard())
	const n = 10000
	for _, pending := range []bool{false, true} {
		for _, contender := range contenders() {
			b.Run(fmt.Sprintf("pending=%t/%s", pending, contender.name), func(b *testing.B) {
				for b.Loop() {
					c := newCluster(n, resourceapi.DeviceToleration{Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute, TolerationSeconds: ptr.To[int64](3600)})
					server := newAPIServer(b, c.pods.feed, -1)
					client := server.client(b, 1000, 1500)
					before := live()
					stop := contender.start(b, c, client)
					if pending {
						c.rules.set(tainting(resourceapi.DeviceTaintEffectNoExecute, "", 1))
					}
					quiet()
					b.ReportMetric(float64(live()-before)/n, "B/claim-and-pod")
					stop()
					runtime.KeepAlive(c)
				}
			})
		}
	}
}

func live() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
