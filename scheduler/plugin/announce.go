package plugin

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/controllers/materialize/record"
)

const (
	// announceEvery is how often the Lease is renewed, announcedFor how long it is in force.
	announceEvery = 10 * time.Second
	announcedFor  = 40 * time.Second
)

// An Election is the leader election in which a scheduler takes part.
type Election struct {
	// Namespace and Name are those of its Lease.
	Namespace, Name string
	// Host is the name of this host, with which the identity of the scheduler begins.
	Host string
}

// leads reports whether this scheduler holds the Lease. Without an election it always leads.
func (e *Election) leads(ctx context.Context, client kubernetes.Interface) (bool, error) {
	if e == nil {
		return true, nil
	}
	lease, err := client.CoordinationV1().Leases(e.Namespace).Get(ctx, e.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && strings.HasPrefix(ptr.Deref(lease.Spec.HolderIdentity, ""), e.Host+"_"), err
}

// announce renews, while this scheduler leads, the Lease by which the controller that writes
// patches into slices learns that the scheduler applies them. A replica that waits for
// another kube-scheduler applies nothing, so it does not announce.
//
// leading becomes true one period later: bindings of the scheduler that led before have arrived
// by then.
func announce(ctx context.Context, client kubernetes.Interface, election *Election, leading *atomic.Bool) {
	logger, said, before := klog.FromContext(ctx), false, false
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		leads, err := election.leads(ctx, client)
		leading.Store(leads && before)
		before = leads
		if leads {
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
