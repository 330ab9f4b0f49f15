package nodeagent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dra-steward/dra-steward/pkg/cdi"
)

// runtimeTimeout bounds the question to a container runtime, which answers from memory.
const runtimeTimeout = 5 * time.Second

// WithRuntime asks the container runtime at a CRI socket whether it applies CDI ids, and
// where it reads specifications, and returns the options with its answer. Directories that
// the options do not have are left out: they cannot be read. containerd tells both; what
// a runtime does not tell stays as it is.
func WithRuntime(ctx context.Context, socket string, o cdi.Options) (cdi.Options, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return o, fmt.Errorf("container runtime at %s: %w", socket, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	status, err := cri.NewRuntimeServiceClient(conn).Status(ctx, &cri.StatusRequest{Verbose: true})
	if err != nil {
		return o, fmt.Errorf("container runtime at %s: %w", socket, err)
	}
	var config struct {
		EnableCDI   *bool    `json:"enableCDI"`
		CDISpecDirs []string `json:"cdiSpecDirs"`
	}
	text := status.GetInfo()["config"]
	if text == "" {
		return o, nil
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return o, fmt.Errorf("configuration of the container runtime at %s: %w", socket, err)
	}
	o.Disabled = config.EnableCDI != nil && !*config.EnableCDI
	ours := o.Dirs
	if len(ours) == 0 {
		ours = cdi.DefaultDirs()
	}
	seen := slices.DeleteFunc(config.CDISpecDirs, func(dir string) bool { return !slices.Contains(ours, dir) })
	if len(seen) > 0 {
		o.Dirs = seen
	}
	return o, nil
}
