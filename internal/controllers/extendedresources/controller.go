package extendedresources

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// FieldManager is the name under which the controller writes.
const FieldManager = "dra-steward-extended-resources"

// Options of a controller.
type Options struct {
	Client kubernetes.Interface
	// Configuration is the name of the ValidatingWebhookConfiguration.
	Configuration string
	Logger        logr.Logger
}

// A Controller keeps the webhook for declared names. It reads the DeviceClasses and one
// configuration, and patches that configuration.
type Controller struct {
	Options
	factory        informers.SharedInformerFactory
	classes        resourcelisters.DeviceClassLister
	configurations cache.SharedIndexInformer
	queue          workqueue.TypedRateLimitingInterface[string]
}

// New prepares a controller.
func New(o Options) (*Controller, error) {
	if o.Client == nil || o.Configuration == "" {
		return nil, errors.New("extended resources: a client and the name of the webhook configuration are required")
	}
	factory := informers.NewSharedInformerFactory(o.Client, 0)
	c := &Controller{
		Options: o, factory: factory, classes: factory.Resource().V1().DeviceClasses().Lister(),
		queue: reconcile.Queue[string](100*time.Millisecond, 30*time.Second),
	}
	one := informers.NewSharedInformerFactoryWithOptions(o.Client, 0, informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, o.Configuration).String()
	}))
	c.configurations = one.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer()
	for _, informer := range []cache.SharedIndexInformer{factory.Resource().V1().DeviceClasses().Informer(), c.configurations} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.enqueue() }, UpdateFunc: func(any, any) { c.enqueue() }, DeleteFunc: func(any) { c.enqueue() },
		}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Controller) enqueue() { c.queue.Add(c.Configuration) }

// Run reconciles until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown()
	running.Go(func() { c.configurations.RunWithContext(ctx) })
	c.factory.StartWithContext(ctx)
	defer c.factory.Shutdown()
	classes := c.factory.Resource().V1().DeviceClasses().Informer()
	if !cache.WaitForCacheSync(ctx.Done(), c.configurations.HasSynced, classes.HasSynced) {
		return nil // ctx has ended
	}
	reconcile.Loop(ctx, c.queue, c.reconcile, func(err error, key string) {
		if !apierrors.IsConflict(err) {
			c.Logger.Error(err, "cannot keep the webhook for extended resources", "configuration", key)
		}
	})
	return nil
}

func (c *Controller) reconcile(ctx context.Context, _ string) error {
	found, exists, err := c.configurations.GetStore().GetByKey(c.Configuration)
	if err != nil || !exists {
		return err // an event follows when it is created
	}
	configuration, ok := found.(*admissionv1.ValidatingWebhookConfiguration)
	if !ok {
		return fmt.Errorf("%s: unexpected %T", c.Configuration, found)
	}
	classes, err := c.classes.List(labels.Everything())
	if err != nil {
		return err
	}
	names := Names(classes)
	change, err := Decide(configuration.Webhooks, names)
	if err != nil || change == nil {
		return err
	}
	patch, err := change.Patch(configuration.ResourceVersion)
	if err != nil {
		return err
	}
	_, err = c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(ctx, c.Configuration, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return fmt.Errorf("patch ValidatingWebhookConfiguration %s: %w", c.Configuration, err)
	}
	c.Logger.Info("updated the extended resources for which pods are checked", "configuration", c.Configuration, "names", names)
	return nil
}
