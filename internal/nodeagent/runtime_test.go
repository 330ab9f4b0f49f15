package nodeagent

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dra-steward/dra-steward/pkg/cdi"
)

type statusOnly struct {
	cri.UnimplementedRuntimeServiceServer
	config string
}

func (s statusOnly) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	return &cri.StatusResponse{Info: map[string]string{"config": s.config}}, nil
}

// TestWithRuntime: what a runtime says counts, as far as it says anything.
func TestWithRuntime(t *testing.T) {
	for name, tt := range map[string]struct {
		config   string
		disabled bool
		dirs     []string
		wrong    bool
	}{
		"off":                {config: `{"enableCDI": false, "cdiSpecDirs": ["/etc/cdi"]}`, disabled: true, dirs: []string{"/etc/cdi"}},
		"on":                 {config: `{"enableCDI": true, "cdiSpecDirs": ["/var/run/cdi", "/elsewhere", "/etc/cdi"]}`, dirs: []string{"/var/run/cdi", "/etc/cdi"}},
		"only other folders": {config: `{"cdiSpecDirs": ["/elsewhere"]}`},
		"nothing about it":   {config: `{}`},
		"no configuration":   {},
		// What CRI-O 1.34 answers: server/runtime_status.go, createRuntimeInfo.
		"CRI-O":               {config: `{"sandboxImage":"registry.k8s.io/pause:3.10"}`},
		"no JSON is an error": {config: `{`, wrong: true},
	} {
		socket := filepath.Join(t.TempDir(), "s")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		cri.RegisterRuntimeServiceServer(server, statusOnly{config: tt.config})
		go func() { _ = server.Serve(listener) }()
		o, err := WithRuntime(t.Context(), socket, cdi.Options{})
		if (err != nil) != tt.wrong || o.Disabled != tt.disabled || !slices.Equal(o.Dirs, tt.dirs) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
		server.Stop()
	}
	if _, err := WithRuntime(t.Context(), filepath.Join(t.TempDir(), "none"), cdi.Options{}); err == nil {
		t.Error("no runtime must be an error")
	}
}
