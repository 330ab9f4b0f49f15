package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// A SecretCertificate is the certificate in a Secret, which it follows by name: it has it
// as soon as the API server does, where a mounted volume takes the kubelet a minute.
type SecretCertificate struct {
	namespace, name string
	informer        cache.SharedIndexInformer
	log             logr.Logger
	current         atomic.Pointer[tls.Certificate]
}

var _ Certificate = (*SecretCertificate)(nil)

// NewSecretCertificate prepares to follow a Secret, which need not exist yet. client may
// list and watch the Secret of that name and needs no other right.
func NewSecretCertificate(client kubernetes.Interface, namespace, name string, log logr.Logger) (*SecretCertificate, error) {
	c := &SecretCertificate{namespace: namespace, name: name, log: log}
	c.informer = cache.NewSharedIndexInformer(cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "secrets", namespace,
		fields.OneTermEqualSelector(metav1.ObjectNameField, name)), &corev1.Secret{}, 0, cache.Indexers{})
	_, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.secretChanged,
		UpdateFunc: func(_, now any) { c.secretChanged(now) },
		// One that is deleted is served until there is another.
	})
	return c, err
}

// Start follows the Secret until ctx ends.
func (c *SecretCertificate) Start(ctx context.Context) error {
	c.informer.RunWithContext(ctx)
	return nil
}

// GetCertificate returns the last certificate of the Secret that could be read.
func (c *SecretCertificate) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := c.current.Load(); current != nil {
		return current, nil
	}
	return nil, fmt.Errorf("no certificate yet: Secret %s/%s has none in %s and %s", c.namespace, c.name, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
}

// secretChanged takes over the certificate of the Secret.
func (c *SecretCertificate) secretChanged(object any) {
	secret, ok := object.(*corev1.Secret)
	if !ok || len(secret.Data[corev1.TLSCertKey]) == 0 {
		return
	}
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		c.log.Error(err, "cannot read the certificate; still serving the previous one", "secret", c.namespace+"/"+c.name)
		return
	}
	if previous := c.current.Swap(&certificate); previous == nil || !previous.Leaf.Equal(certificate.Leaf) {
		c.log.Info("serving a new certificate", "secret", c.namespace+"/"+c.name, "expires", certificate.Leaf.NotAfter)
	}
}
