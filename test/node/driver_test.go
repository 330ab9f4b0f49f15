package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	driverName = "gpu.example.com"
	cdiKind    = driverName + "/device"
	// failingClaim is the name of claims that drivers do not prepare.
	failingClaim = "fails"
)

// A driver prepares claims by writing a CDI specification for each, whose devices put
// into the environment what they are for: DEVICE_<device>=<namespace>/<claim>/<request>.
type driver struct {
	name   string
	cdiDir string
	// node is where it runs, root the root directory of the kubelet there.
	node, root string
	// version is an attribute of its devices, if it is set.
	version string
	helper  *kubeletplugin.Helper
	// reports are what it says about the health of devices; those that are in none are unknown.
	reports chan kubeletplugin.DeviceHealthReport

	mutex sync.Mutex
	calls int                 // of NodePrepareResources
	given map[string][]string // "namespace/claim" -> the devices that were prepared for it at last
	live  map[types.UID]bool  // the claims that are prepared
}

func newDriver(name, cdiDir string) *driver {
	return &driver{name: name, cdiDir: cdiDir, node: nodeName, root: kubeletRoot, live: map[types.UID]bool{}, reports: make(chan kubeletplugin.DeviceHealthReport, 1), given: map[string][]string{}}
}

func startDriver(t testing.TB, client kubernetes.Interface, cdiDir string) *driver {
	d := newDriver(driverName, cdiDir)
	if err := d.start(context.WithoutCancel(t.Context()), client, deviceCount); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.stop)
	return d
}

// start registers it with the kubelet, and publishes devices.
func (d *driver) start(ctx context.Context, client kubernetes.Interface, count int, options ...kubeletplugin.Option) (err error) {
	data := filepath.Join(d.root, "plugins", d.name)
	for _, dir := range []string{data, filepath.Join(d.root, "plugins_registry")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	d.helper, err = kubeletplugin.Start(ctx, d, append([]kubeletplugin.Option{kubeletplugin.DriverName(d.name), kubeletplugin.NodeName(d.node),
		kubeletplugin.KubeClient(client), kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(d.root, "plugins_registry"))}, options...)...)
	if err != nil {
		return err
	}
	var devices []resourceapi.Device
	for i := range count {
		name := fmt.Sprintf("dev-%d", i)
		device := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"name": {StringValue: &name}}}
		if d.version != "" {
			device.Attributes["driverVersion"] = resourceapi.DeviceAttribute{StringValue: &d.version}
		}
		devices = append(devices, device)
	}
	return d.publish(ctx, devices)
}

// publish makes devices those of the node.
func (d *driver) publish(ctx context.Context, devices []resourceapi.Device) error {
	pools := map[string]resourceslice.Pool{d.node: {Slices: []resourceslice.Slice{{Devices: devices}}}}
	return d.helper.PublishResources(ctx, resourceslice.DriverResources{Pools: pools})
}

// stop ends it in order, once.
func (d *driver) stop() {
	if d.helper != nil {
		d.helper.Stop()
		d.helper = nil
	}
}

func (d *driver) spec(uid types.UID) string {
	return filepath.Join(d.cdiDir, "claim-"+string(uid)+"-"+d.name+".json")
}

func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.calls++
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

// prepared is how often the kubelet asked it to prepare claims.
func (d *driver) prepared() int {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.calls
}

// gave are the devices that it has prepared for a claim.
func (d *driver) gave(namespace, claim string) []string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.given[namespace+"/"+claim]
}

// left counts the claims that it has prepared, and that the kubelet did not let it unprepare.
func (d *driver) left() int {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return len(d.live)
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) (devices []kubeletplugin.Device, err error) {
	if claim.Name == failingClaim {
		return nil, errors.New("this claim fails in this test")
	}
	var specs []map[string]any
	var given []string
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != d.name {
			continue
		}
		name := string(claim.UID) + "-" + result.Device
		variable := "DEVICE_" + strings.ReplaceAll(result.Device, "-", "_") + "=" + claim.Namespace + "/" + claim.Name + "/" + result.Request
		specs = append(specs, map[string]any{"name": name, "containerEdits": map[string]any{"env": []string{variable}}})
		given = append(given, result.Device)
		devices = append(devices, kubeletplugin.Device{
			Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device, ShareID: result.ShareID,
			CDIDeviceIDs: []string{d.name + "/device=" + name},
		})
	}
	d.given[claim.Namespace+"/"+claim.Name], d.live[claim.UID] = given, true
	content, err := json.Marshal(map[string]any{"cdiVersion": "0.6.0", "kind": d.name + "/device", "devices": specs})
	if err != nil {
		return nil, err
	}
	return slices.Clip(devices), os.WriteFile(d.spec(claim.UID), content, 0o600)
}

func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	results := map[types.UID]error{}
	for _, claim := range claims {
		delete(d.live, claim.UID)
		err := os.Remove(d.spec(claim.UID))
		if os.IsNotExist(err) {
			err = nil
		}
		results[claim.UID] = err
	}
	return results, nil
}

func (d *driver) HandleError(_ context.Context, err error, message string) {
	fmt.Fprintln(os.Stderr, "driver:", message, err)
}

func (d *driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case report := <-d.reports:
			select {
			case <-ctx.Done():
				return nil
			case reports <- report:
			}
		}
	}
}
