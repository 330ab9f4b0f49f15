package ruleexpiry_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/ruleexpiry"
)

func rule(name, expires string) *resourceapi.DeviceTaintRule {
	r := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	if expires != "" {
		r.Annotations = map[string]string{v1alpha1.ExpiresAnnotation: expires}
	}
	return r
}

func in(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }

// cluster runs a controller, and lists what is left.
type cluster struct {
	t      *testing.T
	client *fake.Clientset
	// failures are how often the next deletions fail.
	failures, deletions int
}

func (c *cluster) run(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(c.client, 0)
	rules := factory.Resource().V1().DeviceTaintRules().Informer()
	controller := ruleexpiry.New(ruleexpiry.Options{Rules: rules, Logger: logr.Discard(), Delete: func(ctx context.Context, name string, uid types.UID, _ string) error {
		if c.failures > 0 {
			c.failures--
			return errors.New("the API server is away")
		}
		if uid != types.UID(name) {
			c.t.Errorf("%s deleted as %s", name, uid)
		}
		// The informer may not know yet that a rule is gone; then there is none to delete.
		err := c.client.ResourceV1().DeviceTaintRules().Delete(ctx, name, metav1.DeleteOptions{})
		if err == nil {
			c.deletions++
		}
		return err
	}})
	factory.StartWithContext(ctx)
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
		factory.Shutdown()
	}
}

func (c *cluster) want(names ...string) {
	c.t.Helper()
	synctest.Wait()
	list, err := c.client.ResourceV1().DeviceTaintRules().List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var got []string
	for _, r := range list.Items {
		got = append(got, r.Name)
	}
	if slices.Sort(got); !slices.Equal(got, names) {
		c.t.Errorf("at %s there are %q, want %q", time.Now().UTC().Format(time.TimeOnly), got, names)
	}
}

// TestExpiry lets hours pass: rules go when their time is over, and not before; a
// restart, a longer time and an API server that is away change nothing about that.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, client: fake.NewClientset(
			rule("hour", in(time.Hour)), rule("day", in(24*time.Hour)), rule("ever", ""), rule("over", in(-time.Hour)), rule("wrong", "tomorrow"))}
		stop := c.run(t.Context())
		c.want("day", "ever", "hour", "wrong")
		wait(59 * time.Minute)
		c.want("day", "ever", "hour", "wrong")
		wait(time.Minute)
		c.want("day", "ever", "wrong")

		longer := rule("day", in(48*time.Hour))
		if _, err := c.client.ResourceV1().DeviceTaintRules().Update(t.Context(), longer, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		wait(25 * time.Hour)
		c.want("day", "ever", "wrong")
		stop()
		wait(24 * time.Hour)
		c.want("day", "ever", "wrong") // no controller works
		c.failures = 9
		stop = c.run(t.Context())
		c.want("day", "ever", "wrong")
		wait(5 * time.Minute)
		c.want("ever", "wrong")

		if _, err := c.client.ResourceV1().DeviceTaintRules().Create(t.Context(), rule("new", in(2*time.Hour)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.want("ever", "new", "wrong")
		wait(3 * time.Hour)
		c.want("ever", "wrong")
		stop()
		if c.deletions != 4 {
			t.Errorf("%d deletions of 4 rules", c.deletions)
		}
	})
}

// wait lets time pass.
func wait(d time.Duration) {
	synctest.Wait()
	<-time.After(d)
	synctest.Wait()
}
