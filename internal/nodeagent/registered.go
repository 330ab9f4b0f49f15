package nodeagent

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	// registrationTime bounds the questions to all plugins of a node.
	registrationTime = 2 * time.Second
	// maxPlugins bounds their number.
	maxPlugins = 64
)

// registered returns a function that reports whether a driver answers at a socket at which
// plugins register with the kubelet, as the kubelet does: by GetInfo. The sockets are asked once,
// and only if the function is called: while a pod cannot end.
func (a *Agent) registered(ctx context.Context) func(driver string) (registered, known bool) {
	if a.Registry == "" {
		return nil
	}
	ask := sync.OnceValues(func() (map[string]bool, error) { return plugins(ctx, a.Registry) })
	return func(driver string) (registered, known bool) {
		drivers, err := ask()
		a.say("plugin-registry", err)
		if err != nil {
			return false, false
		}
		return drivers[driver], true
	}
}

// plugins returns the names of the DRA drivers that answer at a socket of a folder.
func plugins(ctx context.Context, folder string) (map[string]bool, error) {
	sockets, err := filepath.Glob(filepath.Join(folder, "*.sock"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, registrationTime)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(8)
	names := make([]string, min(len(sockets), maxPlugins))
	for i := range names {
		group.Go(func() error {
			names[i] = pluginAt(ctx, sockets[i])
			return nil
		})
	}
	_ = group.Wait()
	found := map[string]bool{}
	for _, name := range names {
		found[name] = true
	}
	return found, nil
}

// pluginAt returns the name of the DRA driver at a socket; empty for another plugin, and where
// none answers.
func pluginAt(ctx context.Context, socket string) string {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return ""
	}
	defer conn.Close()
	info, err := registration.NewRegistrationClient(conn).GetInfo(ctx, &registration.InfoRequest{})
	if err != nil || info.GetType() != registration.DRAPlugin {
		return ""
	}
	return info.GetName()
}
