package plugin

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

const (
	// announceEvery is how often the Lease is renewed, announcedFor how long it is in force.
	announceEvery = 10 * time.Second
	announcedFor  = 40 * time.Second
)

// announce renews, while this scheduler leads, the Lease by which the controller that writes
// patches into slices learns that the scheduler applies them. A replica that waits for
// another kube-scheduler applies nothing, so it does not announce. leads is nil without a leader
// election: then it always leads.
//
// leading becomes true one period later: bindings of the scheduler that led before have arrived
// by then.
func announce(ctx context.Context, client kubernetes.Interface, leads func() bool, leading *atomic.Bool) {
	logger, said, before := klog.FromContext(ctx), false, false
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		now := leads == nil || leads()
		leading.Store(now && before)
		before = now
		var err error
		if now {
			err = renew(ctx, client, metav1.NewMicroTime(time.Now()))
		}
		failed := err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil
		if failed && !said {
			logger.Error(err, "Cannot announce with the Lease that this scheduler applies patches",
				"lease", record.SchedulerLeaseNamespace+"/"+record.SchedulerLeaseName)
		}
		said = failed
	}, announceEvery)
}

func renew(ctx context.Context, client kubernetes.Interface, now metav1.MicroTime) error {
	host, _ := os.Hostname() // for people only
	leases := client.CoordinationV1().Leases(record.SchedulerLeaseNamespace)
	lease, err := leases.Get(ctx, record.SchedulerLeaseName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	missing := err != nil
	lease.Name = record.SchedulerLeaseName
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &host, LeaseDurationSeconds: ptr.To(int32(announcedFor.Seconds())), RenewTime: &now}
	if missing {
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}
