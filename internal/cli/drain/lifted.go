package drain

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// checkLifted warns if the cordons of deleted drains stay: only a controller removes them. Who is not allowed to read
// them gets no warning.
func checkLifted(ctx context.Context, streams cmdutil.Streams, config *rest.Config, args []string) {
	names, err := drainNames(args)
	if err != nil {
		return
	}
	if rules, _, err := clusterread.ServedRules(config); err == nil {
		warnLeft(ctx, streams, rules, names, unattended)
	}
}

func warnLeft(ctx context.Context, streams cmdutil.Streams, rules dynamic.ResourceInterface, names []string, most time.Duration) {
	selector, left := drain.DrainLabel+" in ("+strings.Join(names, ",")+")", 0
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, most, true, func(ctx context.Context) (bool, error) {
		list, err := rules.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err == nil {
			left = len(list.Items)
		}
		return left == 0, err
	})
	if wait.Interrupted(err) && left > 0 {
		printable.Printf(streams.Err, "warning: %s of the cordon left: is a controller running, with controller.drains.enabled? kubectl get devicetaintrules -l '%s'\n",
			plural.Of(left, "DeviceTaintRule"), selector)
	}
}
