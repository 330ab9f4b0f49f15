package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/dra-steward/dra-steward/internal/testsupport/freeport"
	"github.com/dra-steward/dra-steward/internal/testsupport/testmemory"
)

// The limit of the chart, and what its templates make of it for the Go runtime.
const (
	limit   = 512 << 20
	goLimit = "512000000B"
)

// TestMemoryOfLargeClaims: a process with the memory of the chart's container answers thousands
// of distinct large claims, and never holds more than that. DRA_STEWARD_LONG sends 20,000.
func TestMemoryOfLargeClaims(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is set: this test sends hundreds of large claims for 12 s; make test runs it")
	}
	claims := 400
	if os.Getenv("DRA_STEWARD_LONG") != "" {
		claims = 20000
	}
	p := start(t)
	before := p.memory(t, "VmRSS")
	numbers, answered := make(chan int), atomic.Int64{}
	var writers sync.WaitGroup
	for writer := range 16 {
		client := p.client(t)
		writers.Go(func() {
			for i := range numbers {
				if err := p.send(client, fmt.Sprint("tenant-", writer), i); err != nil {
					t.Error(err)
					return
				}
				answered.Add(1)
			}
		})
	}
	go func() {
		defer close(numbers)
		for i := range claims {
			select {
			case numbers <- i:
			case <-t.Context().Done():
				return
			}
		}
	}()
	writers.Wait()
	peak := p.memory(t, "VmHWM")
	t.Logf("%d claims: %d MiB before, %d MiB at the peak, limit %d MiB", answered.Load(), before>>20, peak>>20, limit>>20)
	if answered.Load() != int64(claims) || peak >= limit {
		t.Errorf("%d of %d claims were answered; peak %d MiB, limit %d MiB", answered.Load(), claims, peak>>20, limit>>20)
	}
}

// A process is a webhook of its own.
type process struct {
	address, health, metrics string
	pid                      int
}

// start starts the webhook as a process. The kernel limits its memory: by a control group, else by
// the limit of its data segment, which also counts memory that the runtime has given back.
func start(t *testing.T, flags ...string) *process {
	t.Helper()
	addresses := make([]string, 3)
	for i := range addresses {
		address, err := freeport.Loopback()
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = address
	}
	log := &bytes.Buffer{}
	command := testmemory.Command(t, limit, build(t), append([]string{"serve",
		"--cert-dir=" + t.TempDir(), "--self-signed=127.0.0.1", "--shutdown-delay=0s", "--log-level=error",
		"--address=" + addresses[0], "--health-address=" + addresses[1], "--metrics-address=" + addresses[2]}, flags...)...)
	command.Env = append(os.Environ(), "GOMEMLIMIT="+goLimit)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			t.Errorf("the process ended: %v\n%s", err, log)
		}
	})
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		response, err := http.Get("http://" + addresses[1] + "/readyz")
		if err != nil {
			return false, nil
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return &process{address: addresses[0], health: addresses[1], metrics: addresses[2], pid: command.Process.Pid}
}

// build builds the program without the race detector, which multiplies the memory.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "dra-steward")
	if output, err := exec.Command("go", "build", "-o", program, "../../cmd/dra-steward").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	return program
}

// memory returns a value of the kernel about the process, in bytes.
func (p *process) memory(t *testing.T, key string) int64 {
	t.Helper()
	bytes, err := testmemory.Of(p.pid, key)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func (p *process) client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// send sends a claim; every second one is as large as policies evaluate, the others are larger.
func (p *process) send(client *http.Client, namespace string, i int) error {
	kilobytes := 60
	if i%2 == 0 {
		kilobytes = 300
	}
	return p.ask(client, namespace, strconv.Itoa(i), largeClaim(namespace, i, kilobytes))
}

// ask sends the review of a claim that is created.
func (p *process) ask(client *http.Client, namespace, uid string, claim any) error {
	object, err := json.Marshal(claim)
	if err != nil {
		return err
	}
	review := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{UID: types.UID(uid), Operation: admissionv1.Create, Namespace: namespace,
			Kind:     metav1.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"},
			Resource: metav1.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"},
			Object:   runtime.RawExtension{Raw: object}}}
	review.Request.UserInfo.Username = "tenant"
	body, err := json.Marshal(review)
	if err != nil {
		return err
	}
	response, err := client.Post("https://"+p.address+"/validate?timeout=30s", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %w", response.StatusCode, err)
	}
	return nil
}

// largeClaim is a claim that no other equals: opaque parameters of 9 KiB each.
func largeClaim(namespace string, i, kilobytes int) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("large-", i), Namespace: namespace},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}}}}}
	for n := range kilobytes / 9 {
		claim.Spec.Devices.Config = append(claim.Spec.Devices.Config, resourceapi.DeviceClaimConfiguration{
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "gpu.example.com",
				Parameters: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Any","text":"%d-%d-%s"}`, i, n, strings.Repeat("x", 9<<10))}}}})
	}
	return claim
}
