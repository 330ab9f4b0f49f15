package installed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	helmdriver "helm.sh/helm/v3/pkg/storage/driver"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/envtest/internal/installed"
)

const (
	// reactionType is the file that came with DeviceReactions.
	reactionType = "charts/dra-steward/files/crds/dra-steward.io_devicereactions.yaml"
	// earlierTag is that of the image with the program of the commit before.
	earlierTag = "before-reactions"
)

// TestUpgradeFromBeforeReactions upgrades chart and program of the last commit that has no
// DeviceReaction, while one drain evicts and one is blocked by a budget. The drains go on, also
// after a rollback and the next upgrade, and no pod is evicted twice or beside its budget. With the
// upgrade comes the type DeviceReaction, which the rollback leaves, with its objects and the drains
// that they have made. helm uninstall leaves all that, and lists the cordons.
func TestUpgradeFromBeforeReactions(t *testing.T) {
	if os.Getenv("DRA_STEWARD_LONG") == "" {
		t.Skip("builds the program of an earlier commit and installs four releases; make test-long runs it")
	}
	earlier, err := installed.Earlier()
	if err != nil {
		t.Skip(err)
	}
	c, clients := needsCluster(t)
	t.Cleanup(func() {
		if t.Failed() {
			logs(t)
		}
	})
	d := &drained{t, c, clients, "earlier"}
	d.noRelease()
	kubelet.Provide(earlierTag, earlier.Program)
	old, err := loader.LoadDir(earlier.Chart)
	must(t, err)
	first := d.installEarlier(old)
	d.wantReactions(false)
	d.runWorkloads()
	before, running := d.drains(), d.pods("held", "sick")
	if evicted := len(d.evictions()); evicted == 0 || evicted > 2 {
		t.Fatalf("%d of 4 pods are evicted: the drain is not in the middle", evicted)
	}

	install(t, drainValues(false, "5m"))
	d.same("the upgrade", before, running)
	d.wantReactions(true)
	install(t, drainValues(true, "5m"))
	d.react()
	d.taint("node-1", d.device("sick"))
	eventually(t, "the reaction drains", func(ctx context.Context) error { return d.reacts(ctx, "Draining") })
	eventually(t, "the drain of the reaction is there", func(context.Context) error { return d.have(3) })
	eventually(t, "its device is cordoned", func(context.Context) error { return d.haveCordons(6) })
	before = d.drains()
	cordons, reaction := d.cordons(), d.reaction()

	settle(t, c, clients, func() { newHelm(t, clients).rollback(t, first) })
	d.same("the rollback", before, running)
	d.wantReactions(true)
	eventually(t, "the moving drain ends", d.is("moving", "Drained", "Drained"))
	if now := d.reaction(); now != reaction {
		t.Errorf("after the rollback the reaction is %s, was %s", now, reaction)
	}

	install(t, drainValues(true, "5m"))
	d.same("the second upgrade", before, running)
	must(t, d.reacts(t.Context(), "Draining"))
	d.unblock("held")
	eventually(t, "the blocked drain ends", d.is("held", "Drained", "Drained"))
	if now := d.cordons(); !maps.Equal(now, cordons) {
		t.Errorf("the cordons are %v, were %v", now, cordons)
	}
	d.uninstall(cordons)
	d.same("helm uninstall", before, d.pods("sick"))
	if now := d.cordons(); !maps.Equal(now, cordons) || d.reaction() != reaction {
		t.Errorf("helm uninstall has changed cordons or reaction: %v, were %v", now, cordons)
	}
	d.evictedOnce(5)
}

// runWorkloads runs pods whose devices are drained: one drain is in the middle, one is blocked.
func (d *drained) runWorkloads() {
	d.Helper()
	d.publish("node-2", 1)
	d.publish("node-1", 1, "gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5")
	d.create()
	moving, held := d.run("moving", 4), d.run("held", 1)
	d.run("sick", 1)
	d.publish("node-2", 2, "gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5")
	d.budget("held")
	d.budget("sick")
	d.drain("moving", moving, 3)
	d.drain("held", held, 30)
	eventually(d.T, "one pod is evicted", func(context.Context) error { return d.atLeast(1) })
	eventually(d.T, "a drain is blocked", d.is("held", "Blocked", "BudgetBlocked"))
}

// installEarlier installs the earlier chart, and returns the revision.
func (d *drained) installEarlier(old *helmchart.Chart) (revision int) {
	d.Helper()
	values := failClosed(map[string]any{
		"image":        map[string]any{"tag": earlierTag},
		"certificates": map[string]any{"selfManaged": map[string]any{"settle": "3s"}},
	})
	settle(d.T, d.Client, d.clients, func() { revision = newHelm(d.T, d.clients).releaseOf(d.T, old, values) })
	return revision
}

// noRelease uninstalls what another test has installed, with its types.
func (d *drained) noRelease() {
	d.Helper()
	upgrading(d.T, func() {
		uninstall := action.NewUninstall(newHelm(d.T, d.clients).config)
		uninstall.Timeout = 3 * time.Minute
		if _, err := uninstall.Run(name); err != nil && !errors.Is(err, helmdriver.ErrReleaseNotFound) {
			d.Fatal(err)
		}
	})
	for _, kind := range []string{"devicedrains", "devicereactions", "devicerolls", "resourceslicepatches"} {
		crd := typeOf(kind)
		must(d.T, client.IgnoreNotFound(d.Delete(d.Context(), crd)))
		eventually(d.T, "the type is gone", func(ctx context.Context) error {
			if err := d.Get(ctx, client.ObjectKeyFromObject(crd), crd); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is there: %w", kind, err)
			}
			return nil
		})
	}
}

// typeOf is a CustomResourceDefinition of ours.
func typeOf(plural string) *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	crd.SetName(plural + "." + v1alpha1.Group)
	return crd
}

// wantReactions fails unless the type DeviceReaction is there, or is not.
func (d *drained) wantReactions(want bool) {
	d.Helper()
	crd := typeOf("devicereactions")
	err := d.Get(d.Context(), client.ObjectKeyFromObject(crd), crd)
	if client.IgnoreNotFound(err) != nil || (err == nil) != want {
		d.Errorf("the type DeviceReaction: %v, want it: %t", err, want)
	}
}

// device is that of the only pod of a ReplicaSet.
func (d *drained) device(set string) string {
	d.Helper()
	devices := d.devices(set)
	if len(devices) != 1 {
		d.Fatalf("%s has the devices %v", set, devices)
	}
	return devices[0]
}

// reaction is the identity of the DeviceReaction.
func (d *drained) reaction() types.UID {
	d.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(v1alpha1.DeviceReactionKind))
	must(d.T, d.Get(d.Context(), client.ObjectKey{Name: d.name}, object))
	return object.GetUID()
}

func (d *drained) haveCordons(n int) error {
	if cordons := d.cordons(); len(cordons) != n {
		return fmt.Errorf("the cordons are %v, want %d", cordons, n)
	}
	return nil
}
