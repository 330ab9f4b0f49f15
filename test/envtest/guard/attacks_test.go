package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/chart/controller"
)

func atOnce(s *siege) {
	s.workload("", 50)
	var writers sync.WaitGroup
	for n, device := range s.held() {
		writers.Go(func() { s.create(s.rule(fmt.Sprint(n), device, "NoExecute", "")) })
	}
	writers.Wait()
	s.settle()
}

// patch changes the spec of a rule.
func (s *siege) patch(name string, spec map[string]any) bool {
	s.Helper()
	text, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		s.Fatal(err)
	}
	_, err = s.rules.Patch(s.Context(), s.name+"-"+name, types.MergePatchType, text, metav1.PatchOptions{})
	return s.note(err)
}

func moved(s *siege) {
	s.workload("", ready)
	held := s.held()
	s.create(s.rule("moves", held[0], "NoExecute", ""))
	for _, device := range held[1:] {
		s.patch("moves", map[string]any{"deviceSelector": map[string]any{"device": device}})
		s.leaves(min(s.admitted, threshold))
	}
	s.settle()
}

func keys(s *siege) {
	s.workload("StatefulSet", threshold)
	s.create(s.rule("keys", "", preview(), ""))
	for round := range rounds {
		before := s.gone()
		if !s.patch("keys", map[string]any{"taint": map[string]any{"key": fmt.Sprint("example.com/key-", round), "effect": "NoExecute"}}) {
			return
		}
		s.leaves(before + threshold)
		s.patch("keys", map[string]any{"taint": map[string]any{"effect": preview()}})
		s.seen(threshold)
	}
}

func versions(s *siege) {
	served := versionsOfTaintRules(s.T, s.c)
	each(ready, func(s *siege, n int, device string) bool {
		version := served[n%len(served)]
		_, err := s.untyped.Resource(version).Create(s.Context(), ruleOf(version, fmt.Sprint(s.name, "-", n), s.driver+"/"+s.name+"/"+device, "NoExecute", ""), metav1.CreateOptions{})
		return s.note(err)
	})(s)
}

// dated creates a rule for each device with a timeAdded.
func dated(at func() time.Time) func(s *siege, n int, device string) bool {
	return func(s *siege, n int, device string) bool {
		rule := s.rule(fmt.Sprint(n), device, "NoExecute", "")
		if err := unstructured.SetNestedField(rule.Object, at().UTC().Format(time.RFC3339), "spec", "taint", "timeAdded"); err != nil {
			s.Fatal(err)
		}
		return s.create(rule)
	}
}

// moveTime creates rules for a night each, and moves all of them to now.
func moveTime(s *siege) {
	day := 0
	each(ready, dated(func() time.Time { day++; return time.Now().AddDate(0, 0, day) }))(s)
	for n := range ready {
		s.patch(fmt.Sprint(n), map[string]any{"taint": map[string]any{"timeAdded": time.Now().UTC().Format(time.RFC3339)}})
	}
	s.settle()
}

// timeSlices evicts a part of the threshold in each half of a window.
func timeSlices(s *siege) {
	s.workload("", 3*threshold)
	held, from := s.held(), time.Now()
	for n, device := range held {
		if n%(threshold/2) == 0 && n > 0 {
			from = from.Add(10 * time.Second)
			<-time.After(time.Until(from))
		}
		s.create(s.rule(fmt.Sprint(n), device, "NoExecute", ""))
	}
	s.settle()
}

// statuses lets the rules look old: each of their authors may write their status, too.
func statuses(s *siege) {
	each(ready, func(s *siege, n int, device string) bool {
		name := fmt.Sprint(n)
		if !s.create(s.rule(name, device, "NoExecute", "")) {
			return false
		}
		old := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
		status := map[string]any{"conditions": []any{map[string]any{"type": "dra-steward.io/Evicts", "status": "True", "reason": "Evicts", "message": "", "observedGeneration": 1, "lastTransitionTime": old}}}
		text, err := json.Marshal(map[string]any{"status": status, "metadata": map[string]any{"creationTimestamp": old}})
		if err != nil {
			s.Fatal(err)
		}
		if _, err := s.rules.Patch(s.Context(), s.name+"-"+name, types.MergePatchType, text, metav1.PatchOptions{}, "status"); err != nil {
			s.Error(err)
		}
		return true
	})(s)
}

func restarted(s *siege) {
	each(3*threshold, func(s *siege, n int, device string) bool {
		if n == threshold {
			s.settle()
			s.restart()
			s.seen(2 * threshold)
		}
		return again(s, n, device)
	})(s)
}

func unsynced(s *siege) {
	s.workload("", ready)
	held := s.held()
	s.restart()
	for n, device := range held {
		again(s, n, device)
	}
	s.settle()
}

func published(s *siege) {
	s.workload("", ready)
	if err := s.c.ResourceV1().ResourceSlices().Delete(s.Context(), s.name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.create(s.rule("all", "", "NoExecute", ""))
	s.publish()
	s.settle()
}

func acknowledgedAgain(s *siege) {
	s.workload("StatefulSet", threshold)
	rule := s.rule("again", "", "NoExecute", fmt.Sprintf("pods<=%d", threshold))
	for range rounds {
		before := s.gone()
		if !s.create(rule) {
			return
		}
		s.leaves(before + threshold)
		s.delete("again")
		s.seen(threshold)
	}
}

func acknowledgedFirst(s *siege) {
	s.workload("StatefulSet", ready)
	if !s.create(s.rule("first", "", "NoExecute", fmt.Sprintf("pods<=%d", ready))) {
		s.Error("the acknowledged rule was refused")
	}
	s.leaves(ready)
	s.delete("first")
	s.seen(ready)
	for n, device := range s.held() {
		again(s, n, device)
	}
	s.settle()
}

// recreated makes each pod again under its name, as a controller of the tenant can, with an owner of its choice. That
// must exist, or Kubernetes deletes the pods.
func recreated(s *siege) {
	s.workload("", threshold/2)
	owner := create(s.T, s.c.CoreV1().ConfigMaps(s.name), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}})
	for round := range rounds {
		for n, device := range s.held() {
			s.create(s.rule(unique(round, n), device, "NoExecute", ""))
		}
		s.settle()
		for n := range threshold / 2 {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%03d", n), OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: new(true)}}}, Spec: s.podSpec()}
			_, _ = s.c.CoreV1().Pods(s.name).Create(s.Context(), pod, metav1.CreateOptions{}) // the others have not left
		}
		s.seen(threshold / 2)
	}
}

// driverTaints lets the driver taint its devices in its slice, which is never refused.
func driverTaints(s *siege) {
	s.workload("", ready)
	slice, err := s.c.ResourceV1().ResourceSlices().Get(s.Context(), s.name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	slice.Spec = s.slice(s.held()...).Spec
	if _, err := s.c.ResourceV1().ResourceSlices().Update(s.Context(), slice, metav1.UpdateOptions{}); err != nil {
		s.Errorf("a driver must be able to publish: %v", err)
	}
	s.settle()
}

// controlled runs the controller, which carries out drains and reactions.
func controlled(s *siege, pods int) {
	s.workload("", pods)
	args, err := controller.Install(s.Context(), cluster, map[string]any{"mode": "enforce", "guard": s.values["guard"],
		"controller": map[string]any{"enabled": true, "reactions": map[string]any{"enabled": true}}})
	if err != nil {
		s.Fatal(err)
	}
	c, err := controller.Start(s.Context(), args)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := c.Stop(); err != nil {
			s.Error(err)
		}
	})
}

// drained is as many drains as the guard admits, and then as many rules.
func drained(s *siege) {
	controlled(s, 3*threshold)
	held := s.held()
	for n := range 2 * threshold {
		s.drain(fmt.Sprint(n), held[n])
	}
	for n := range threshold {
		again(s, n, held[2*threshold+n])
	}
	eventually(s.T, "the drains evict", func(context.Context) (bool, error) { return s.gone() > 0, nil })
	s.settle()
}

// together is a rule, drains and a reaction to taints of the driver, which each have half of the threshold.
func together(s *siege) {
	controlled(s, 3*threshold)
	held := s.held()
	reaction := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.DeviceReactionKind, "metadata": map[string]any{"name": s.name},
		"spec": map[string]any{"mode": "Act", "when": map[string]any{"taint": map[string]any{"key": "example.com/sick"}}, "selector": map[string]any{"driver": s.driver},
			"then": map[string]any{"evictionsPerMinute": int64(v1alpha1.DrainRateMax)}},
	}}
	if _, err := s.untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.DeviceReactionResource)).Create(s.Context(), reaction, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	for n := range threshold / 2 {
		again(s, n, held[n])
		s.drain(fmt.Sprint(n), held[threshold+n])
	}
	slice := s.slice()
	for n := range slice.Spec.Devices {
		slice.Spec.Devices[n].Taints = []resourceapi.DeviceTaint{{Key: "example.com/sick", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	stored, err := s.c.ResourceV1().ResourceSlices().Get(s.Context(), s.name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	stored.Spec = slice.Spec
	if _, err := s.c.ResourceV1().ResourceSlices().Update(s.Context(), stored, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.settle()
	for n := range threshold {
		again(s, threshold+n, held[2*threshold+n])
	}
	s.settle()
}
