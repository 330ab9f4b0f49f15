package materialize_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// fatalDriver is the variable by which the program of these tests is a driver, which
// publishes one device and ends at the first error; its value is the driver's name.
const fatalDriver = "FATAL_DRIVER"

// fatalExit is the exit code of a driver that was reported of an error.
const fatalExit = 3

func runFatalDriver() int {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	reported := make(chan error, 100)
	sync := delay()
	_, err = resourceslice.StartController(context.Background(), resourceslice.Options{
		DriverName: os.Getenv(fatalDriver), KubeClient: c, SyncDelay: &sync,
		Resources: &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
			"pool": {AllNodes: true, Slices: []resourceslice.Slice{{Devices: []resourceapi.Device{device("a", "x")}}}}}},
		ErrorHandler: func(_ context.Context, err error, _ string) { reported <- err },
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	err = <-reported
	dropped := (*resourceslice.DroppedFieldsError)(nil)
	fmt.Printf("dropped fields: %t: %v\n", errors.As(err, &dropped), err)
	return fatalExit
}

// startFatal starts such a driver, and returns what waits for its end.
func (s *site) startFatal() (ended func() (code int, output string)) {
	s.t.Helper()
	kubeconfig, err := cluster.UserKubeconfig(s.user(), "system:masters")
	if err != nil {
		s.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	var out bytes.Buffer
	driver := exec.CommandContext(s.t.Context(), self)
	driver.Env = append(os.Environ(), fatalDriver+"="+s.driver, "KUBECONFIG="+kubeconfig)
	driver.Stdout, driver.Stderr = &out, &out
	if err := driver.Start(); err != nil {
		s.t.Fatal(err)
	}
	return func() (int, string) {
		_ = driver.Wait() // the exit code says it
		return driver.ProcessState.ExitCode(), out.String()
	}
}

// TestFatalDriver shows what docs/patches.md warns of: a driver that takes every error for
// its end ends when a patch changes its slice, and again at each start while the patch is
// there. What it published stays, with the patch, and goes on when the patch does not select
// it any more.
func TestFatalDriver(t *testing.T) {
	t.Parallel()
	s := newSite(t, "materialize")
	ended := s.startFatal()
	s.shows("a: model=x")
	s.patch("rack", rack)
	for i := range 3 {
		if code, output := ended(); code != fatalExit || !strings.Contains(output, "dropped fields: true") {
			t.Fatalf("start %d of the driver: exit code %d: %s", i, code, output)
		}
		s.shows("a: dc.example.com/rack=r1 model=x")
		ended = s.startFatal()
	}
	_, _ = ended()
	s.unpatch("rack")
	s.shows("a: model=x")
	before := s.writes("")
	s.startFatal() // ends with the test
	s.stays("a: model=x")
	if after := s.writes(""); after != before {
		t.Errorf("%d writes of a driver whose slice is as it says", after-before)
	}
}
