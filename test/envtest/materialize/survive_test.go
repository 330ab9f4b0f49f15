package materialize_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/dra-steward/dra-steward/test/chart/controller"
)

// records waits until as many ConfigMaps keep what drivers said.
func (s *site) records(want int) {
	s.t.Helper()
	got := -1
	err := wait.PollUntilContextTimeout(s.t.Context(), 200*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := s.c.CoreV1().ConfigMaps(controller.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=dra-steward-materialize"})
		if err != nil {
			return false, err
		}
		got = len(list.Items)
		return got == want, nil
	})
	if err != nil {
		s.t.Fatalf("%d ConfigMaps keep what drivers said, want %d", got, want)
	}
}

// deleteSlices deletes those of the driver by hand.
func (s *site) deleteSlices() {
	s.t.Helper()
	for _, slice := range s.slices() {
		if err := s.c.ResourceV1().ResourceSlices().Delete(s.t.Context(), slice.Name, metav1.DeleteOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestSurvives: the slice is deleted by hand while nothing of ours runs, and the driver makes
// it again of what it took over. What it said before is known all the same, to a webhook and a
// controller that start then, also for a patch that went meanwhile and for one that changed.
// Nothing is kept longer than that is of use, and nothing that they do is refused.
func TestSurvives(t *testing.T) {
	s := newSite(t, "materialize", quick)
	s.records(0)
	s.patch("model", `{attributes: {`+s.driver+`/model: {string: z}}}`)
	s.publish(one(device("a", "x"), device("b", "y")))
	s.shows("a: model=z", "b: model=z")
	s.quiet()
	s.records(1)
	lose := func(meanwhile func()) {
		t.Helper()
		shared.shut(t)
		before := s.slices()[0].Name
		s.deleteSlices()
		s.shows("a: model=z", "b: model=z") // as the driver's own
		if after := s.slices()[0]; after.Name == before || len(after.Annotations) > 0 {
			t.Fatalf("the slice %s is not created again without us: %s %v", before, after.Name, after.Annotations)
		}
		meanwhile()
		shared.use(t, "materialize", quick)
	}
	lose(func() { s.patch("model", `{attributes: {`+s.driver+`/model: {string: z2}}}`) })
	s.shows("a: model=z2", "b: model=z2")
	s.quiet()
	if got := s.devices(); !strings.Contains(got, "/model]: z2, published x ") || !strings.Contains(got, "/model]: z2, published y ") {
		t.Errorf("devices says %q", got)
	}
	s.patch("model", `{attributes: {`+s.driver+`/model: {string: z}}}`)
	s.shows("a: model=z", "b: model=z")
	s.quiet()
	s.records(1)
	lose(func() { s.unpatch("model") })
	s.shows("a: model=x", "b: model=y")
	s.stays("a: model=x", "b: model=y")
	s.records(0)
	for _, r := range requests(t) {
		if r.ResponseStatus.Code == 403 {
			t.Errorf("refused: %s %s %+v", r.User.Username, r.Verb, r.ObjectRef)
		}
	}
}

// TestRecovers: the slice is deleted by hand while the webhook is down, and the copy of what the driver
// said is gone when the webhook starts. The controller knows it, and stores it in the slice.
func TestRecovers(t *testing.T) {
	s := newSite(t, "materialize", quick)
	s.patch("model", `{attributes: {`+s.driver+`/model: {string: z}}}`)
	s.publish(one(device("a", "x"), device("b", "y")))
	s.shows("a: model=z", "b: model=z")
	s.quiet()
	s.records(1)
	shared.shutWebhook(t)
	s.deleteSlices()
	s.shows("a: model=z", "b: model=z") // as the driver's own
	copies := s.c.CoreV1().ConfigMaps(controller.Namespace)
	if err := copies.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=dra-steward-materialize"}); err != nil {
		t.Fatal(err)
	}
	shared.openWebhook(t)
	s.applied("model", "True", "Patched", "2 of 2 matching devices")
	if got := s.devices(); !strings.Contains(got, "/model]: z, published x ") || !strings.Contains(got, "/model]: z, published y ") {
		t.Errorf("devices says %q", got)
	}
	s.unpatch("model")
	s.shows("a: model=x", "b: model=y")
	s.stays("a: model=x", "b: model=y")
	s.records(0)
}
