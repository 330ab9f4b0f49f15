package node

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// clear deletes what a test has created, while the kubelet still runs, so that another
// test, or the same once more, begins on an empty cluster.
func (w *world) clear() {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	all, now := metav1.ListOptions{}, metav1.DeleteOptions{}
	errs := []error{
		w.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(ctx, now, all),
		w.client.AdmissionregistrationV1().MutatingWebhookConfigurations().DeleteCollection(ctx, now, all),
	}
	for _, namespace := range []string{"default", adminNamespace} {
		errs = append(errs,
			w.client.CoreV1().Pods(namespace).DeleteCollection(ctx, now, all),
			w.client.CoreV1().Events(namespace).DeleteCollection(ctx, now, all),
			w.client.ResourceV1().ResourceClaims(namespace).DeleteCollection(ctx, now, all),
			w.client.ResourceV1().ResourceClaimTemplates(namespace).DeleteCollection(ctx, now, all))
	}
	ours := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=dra-steward"}
	errs = append(errs,
		w.client.ResourceV1().DeviceClasses().DeleteCollection(ctx, now, all),
		w.client.ResourceV1().DeviceTaintRules().DeleteCollection(ctx, now, all),
		w.client.RbacV1().ClusterRoles().DeleteCollection(ctx, now, ours),
		w.client.RbacV1().ClusterRoleBindings().DeleteCollection(ctx, now, ours))
	for _, err := range errs {
		if err != nil {
			w.Error(err)
		}
	}
	var left string
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		pods, errPods := w.client.CoreV1().Pods("").List(ctx, all)
		claims, errClaims := w.client.ResourceV1().ResourceClaims("").List(ctx, all)
		if errPods != nil || errClaims != nil {
			left = fmt.Sprint(errPods, errClaims)
			return false, nil
		}
		left = fmt.Sprint(len(pods.Items), " pods, ", len(claims.Items), " claims")
		return len(pods.Items)+len(claims.Items) == 0, nil
	})
	if err != nil {
		w.Errorf("after the test there are %s", left)
	}
	if err := w.client.ResourceV1().ResourceSlices().DeleteCollection(ctx, now, all); err != nil {
		w.Error(err)
	}
}
