package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
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
// and only if the function is called: while a pod cannot end. Of a driver that is not found, nothing
// is known while a plugin does not answer, because that can be the driver.
func (a *Agent) registered(ctx context.Context) func(driver string) (registered, known bool) {
	if a.Registry == "" {
		return nil
	}
	ask := sync.OnceValues(func() (map[string]bool, error) { return plugins(ctx, a.Registry) })
	return func(driver string) (registered, known bool) {
		drivers, err := ask()
		a.say("plugin-registry", err)
		return drivers[driver], drivers[driver] || err == nil
	}
}

// plugins returns the names of the DRA drivers that answer at a socket of a folder. An error says
// that there may be more.
func plugins(ctx context.Context, folder string) (map[string]bool, error) {
	sockets, err := socketsBelow(folder)
	ctx, cancel := context.WithTimeout(ctx, registrationTime)
	defer cancel()
	names, errs := make([]string, len(sockets)), make([]error, len(sockets))
	var group sync.WaitGroup
	for i := range sockets { // all together: one that hangs takes no time from others
		group.Go(func() { names[i], errs[i] = pluginAt(ctx, sockets[i]) })
	}
	group.Wait()
	found := map[string]bool{}
	for _, name := range names {
		found[name] = true
	}
	return found, errors.Join(err, errors.Join(errs...))
}

// socketsBelow returns the sockets that the kubelet finds: those in a folder and its subfolders, whatever
// their names end with. It ignores names that begin with a dot.
func socketsBelow(folder string) (sockets []string, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(entry.Name(), ".") || !isSocket(path, entry):
			return nil
		case len(sockets) == maxPlugins:
			return fmt.Errorf("%s has more than %d sockets", folder, maxPlugins)
		}
		sockets = append(sockets, path)
		return nil
	})
	return sockets, err
}

func isSocket(path string, entry fs.DirEntry) bool {
	kind := entry.Type()
	if kind&fs.ModeSymlink != 0 {
		if target, err := os.Stat(path); err == nil {
			kind = target.Mode()
		}
	}
	return kind&fs.ModeSocket != 0
}

// pluginAt returns the name of the DRA driver at a socket; empty for another plugin, and where
// none answers. An error says that a plugin accepts connections and does not answer in time.
func pluginAt(ctx context.Context, socket string) (string, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", nil
	}
	defer conn.Close()
	info, err := registration.NewRegistrationClient(conn).GetInfo(ctx, &registration.InfoRequest{})
	switch code := status.Code(err); {
	case code == codes.DeadlineExceeded || code == codes.Canceled:
		return "", fmt.Errorf("the plugin at %s does not answer", socket)
	case err != nil || info.GetType() != registration.DRAPlugin:
		return "", nil
	}
	return info.GetName(), nil
}
