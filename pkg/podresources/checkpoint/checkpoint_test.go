package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

// The files of testdata are written by the kubelet's own code; test/node holds them to
// it, and compares what is read with what was written.
func file(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// sealed is a checkpoint of claims with the right checksum.
func sealed(t testing.TB, data string) []byte {
	t.Helper()
	content, err := json.Marshal(map[string]any{"Data": data, "Checksum": crc32.ChecksumIEEE([]byte(data))})
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestDRA(t *testing.T) {
	claims, err := checkpoint.ReadDRA("testdata/" + checkpoint.DRAFile)
	if err != nil || len(claims) != 2 || claims[0].Devices[1].Requests[0] != "b/large" {
		t.Fatalf("%+v, %v", claims, err)
	}
	good := string(file(t, checkpoint.DRAFile))
	for name, test := range map[string]struct {
		content string
		want    error
	}{
		"empty file":      {"", checkpoint.ErrChecksum},
		"cut off":         {good[:len(good)/2], checkpoint.ErrChecksum},
		"edited":          {strings.Replace(good, "gpu-0", "gpu-9", 1), checkpoint.ErrChecksum},
		"newer version":   {string(sealed(t, `{"apiVersion":"checkpoint.dra.kubelet.k8s.io/v2","kind":"DRACheckpoint"}`)), checkpoint.ErrVersion},
		"another kind":    {string(sealed(t, `{"apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","kind":"Health"}`)), checkpoint.ErrVersion},
		"another shape":   {string(sealed(t, `{"apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","kind":"DRACheckpoint","ClaimInfoStateList":{}}`)), checkpoint.ErrVersion},
		"older envelope":  {`{"version":"v1","entries":{},"checksum":1}`, checkpoint.ErrVersion},
		"data is no JSON": {string(sealed(t, `x`)), checkpoint.ErrVersion},
	} {
		if claims, err := checkpoint.DRA([]byte(test.content)); !errors.Is(err, test.want) || claims != nil {
			t.Errorf("%s: %v, %v; want %v", name, claims, err, test.want)
		}
	}
}

func TestDevicePlugins(t *testing.T) {
	allocations, err := checkpoint.ReadDevicePlugins("testdata/" + checkpoint.DevicePluginsFile)
	if err != nil || len(allocations) != 2 || len(allocations[0].CDIIDs) != 2 {
		t.Fatalf("%+v, %v", allocations, err)
	}
	good := string(file(t, checkpoint.DevicePluginsFile))
	for name, test := range map[string]struct {
		content string
		want    error
	}{
		"cut off":        {good[:len(good)-3], checkpoint.ErrChecksum},
		"edited":         {strings.Replace(good, "pod-1", "pod-9", 1), checkpoint.ErrChecksum},
		"checksum":       {strings.Replace(good, `"Checksum":`, `"Checksum":1`, 1), checkpoint.ErrChecksum},
		"newer envelope": {strings.Replace(good, `"Checksum"`, `"Version":"v9","Checksum"`, 1), checkpoint.ErrVersion},
		"newer entry":    {strings.Replace(good, `"PodUID"`, `"Claims":[],"PodUID"`, 1), checkpoint.ErrVersion},
	} {
		if allocations, err := checkpoint.DevicePlugins([]byte(test.content)); !errors.Is(err, test.want) || allocations != nil {
			t.Errorf("%s: %v, %v; want %v", name, allocations, err, test.want)
		}
	}
}

func TestAbsent(t *testing.T) {
	if _, err := checkpoint.ReadDRA("testdata/absent"); !os.IsNotExist(err) {
		t.Errorf("%v, want that the file does not exist", err)
	}
}

// FuzzDRA: whatever the bytes, no panic, and an error or claims.
func FuzzDRA(f *testing.F) {
	f.Add(file(f, checkpoint.DRAFile), true)
	f.Add([]byte(`{"apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","kind":"DRACheckpoint","ClaimInfoStateList":[{}]}`), true)
	f.Fuzz(func(t *testing.T, content []byte, seal bool) {
		if seal {
			content = sealed(t, string(bytes.ToValidUTF8(content, nil)))
		}
		claims, err := checkpoint.DRA(content)
		if err != nil && claims != nil {
			t.Error("half an answer beside an error")
		}
	})
}
