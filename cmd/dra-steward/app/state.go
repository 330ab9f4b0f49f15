package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"os"

	"github.com/dra-steward/dra-steward/pkg/usage"
)

// readOptions say where a command reads a cluster from.
type readOptions struct {
	kubeconfig string
	files      []string
	timeout    time.Duration
}

func (o *readOptions) flags(f *pflag.FlagSet, files bool) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster (default: $KUBECONFIG, or the cluster that this runs in)")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long to wait until the cluster has been read")
	if files {
		f.StringSliceVar(&o.files, "from-files", nil, "read slices, rules, claims, pods and budgets from these files, folders or - for standard input instead of a cluster")
	}
}

func (o readOptions) config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", ownKubeconfig(o.kubeconfig))
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w; outside of a cluster name a file", err)
	}
	return config, nil
}

func (o readOptions) state(ctx context.Context, streams Streams) (*state, error) {
	if o.files != nil {
		return stateOfFiles(streams, o.files)
	}
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	l := &look{}
	if err := l.readView(ctx, config); err != nil {
		return nil, err
	}
	s := &state{view: l.view}
	s.objects.Published = usage.PublishedDevices(s.view.PublishedSlices())
	s.objects.Thresholds = siteThresholds(ctx, client)
	err = s.read(ctx, client)
	if apierrors.IsForbidden(err) {
		l.notes, err = append(l.notes, "who would have to go is not known: "+err.Error()), nil
	}
	for _, note := range l.notes {
		fmt.Fprintf(streams.Err, "warning: %s\n", note)
	}
	return s, err
}

// ownKubeconfig is the file of the flag, of $KUBECONFIG, or the usual one if it is there;
// empty is the cluster that this runs in.
func ownKubeconfig(flag string) string {
	if flag != "" {
		return flag
	}
	if list := os.Getenv("KUBECONFIG"); list != "" {
		first, _, _ := strings.Cut(list, string(os.PathListSeparator))
		return first
	}
	return ""
}
