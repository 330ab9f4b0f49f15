package nodeagent

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// A stubPlugin is a plugin that registers with the kubelet; one without a name does not answer.
type stubPlugin struct {
	registration.UnimplementedRegistrationServer
	kind, name string
}

func (p stubPlugin) GetInfo(ctx context.Context, _ *registration.InfoRequest) (*registration.PluginInfo, error) {
	if p.name == "" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &registration.PluginInfo{Type: p.kind, Name: p.name}, nil
}

// register lets a plugin answer at a socket until the test ends.
func register(t *testing.T, socket string, plugin stubPlugin) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, plugin)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
}

// TestRegistered: a driver is found at each socket at which the kubelet finds it, and however many other plugins
// hang. While one hangs, it is not known that a driver is not registered.
func TestRegistered(t *testing.T) {
	driver := stubPlugin{kind: registration.DRAPlugin, name: gpuDriver}
	for name, test := range map[string]struct {
		plugins           map[string]stubPlugin
		hung              int
		registered, known bool
	}{
		"by its usual name":    {plugins: map[string]stubPlugin{"gpu.example.com-reg.sock": driver}, registered: true, known: true},
		"another name":         {plugins: map[string]stubPlugin{"gpu": driver}, registered: true, known: true},
		"in a folder":          {plugins: map[string]stubPlugin{"gpu/reg": driver}, registered: true, known: true},
		"beside those hanging": {plugins: map[string]stubPlugin{"gpu.sock": driver}, hung: 9, registered: true, known: true},
		"others hang":          {plugins: map[string]stubPlugin{"gpu.sock": {kind: registration.DRAPlugin, name: "nic.example.com"}}, hung: 1},
		"hidden":               {plugins: map[string]stubPlugin{".gpu.sock": driver}, known: true},
		"another kind":         {plugins: map[string]stubPlugin{"gpu.sock": {kind: registration.CSIPlugin, name: gpuDriver}}, known: true},
		"none":                 {known: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for socket, plugin := range test.plugins {
				register(t, filepath.Join(folder, socket), plugin)
			}
			for i := range test.hung {
				register(t, filepath.Join(folder, fmt.Sprintf("a%d.sock", i)), stubPlugin{})
			}
			a := NewAgent(Options{Registry: folder, Log: logr.Discard()})
			if registered, known := a.registered(t.Context())(gpuDriver); registered != test.registered || known != test.known {
				t.Errorf("registered %v, known %v", registered, known)
			}
		})
	}
}

// TestTooManyPlugins: of more sockets than are asked, and of a folder that cannot be read, it is not known which drivers
// there are.
func TestTooManyPlugins(t *testing.T) {
	folder := t.TempDir()
	for i := range maxPlugins + 1 {
		listener, err := net.Listen("unix", filepath.Join(folder, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := plugins(ctx, folder); err == nil || !strings.Contains(err.Error(), "more than 64 sockets") {
		t.Error(err)
	}
	if _, err := plugins(ctx, filepath.Join(folder, "absent")); err == nil {
		t.Error("a folder that does not exist has all plugins")
	}
}
