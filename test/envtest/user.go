package envtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrlenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

// Client side limits in requests per second, far above what a test sends.
const (
	clientQPS   = 1000
	clientBurst = 2000
)

// User returns a client configuration that authenticates as the named user in
// the named groups, by a client certificate of the cluster's own authority. What
// the user may do is decided by RBAC; nothing, as long as no role is bound.
func (c *Cluster) User(name string, groups ...string) (*rest.Config, error) {
	c.users.Lock()
	defer c.users.Unlock()
	user, err := c.plane.AddUser(ctrlenvtest.User{Name: name, Groups: groups}, &rest.Config{QPS: clientQPS, Burst: clientBurst})
	if err != nil {
		return nil, fmt.Errorf("client certificate for user %q: %w", name, err)
	}
	return user.Config(), nil
}

// UserKubeconfig writes a kubeconfig file for a user as User returns it, into
// the cluster's folder, and returns its path.
func (c *Cluster) UserKubeconfig(name string, groups ...string) (string, error) {
	config, err := c.User(name, groups...)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(c.dir.path, "user-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kubeconfig")
	return path, writeKubeconfig(path, config)
}

// Kubeconfig returns the path of the administrator's kubeconfig file.
func (c *Cluster) Kubeconfig() string {
	return filepath.Join(c.dir.path, "kubeconfig")
}

// Kubectl prepares a kubectl command that acts as the administrator and ignores
// the preferences of the user who runs it. It needs Options.Kubectl.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.set.Load().Path(assets.Kubectl), append([]string{"--kubeconfig", c.Kubeconfig()}, args...)...)
	cmd.Env = append(os.Environ(), "KUBERC=off", "KUBECACHEDIR="+filepath.Join(c.dir.path, "kubectl-cache"))
	if !c.options.Kubectl {
		cmd.Err = errors.New("Options.Kubectl was not set when the cluster was started")
	}
	return cmd
}

// writeKubeconfig writes a file with the one context "envtest".
func writeKubeconfig(path string, config *rest.Config) error {
	const name = "envtest"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return fmt.Errorf("kubeconfig file: %w", err)
	}
	return nil
}
