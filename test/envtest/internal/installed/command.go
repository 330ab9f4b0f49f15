package installed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// command prepares the process: the arguments of the container, in which a port is one
// of the pod's address and a folder one of the pod's volumes.
func (p *Pod) command(ctx context.Context) (*exec.Cmd, error) {
	container := p.Object.Spec.Containers[0]
	args := append([]string(nil), container.Args...)
	for _, mount := range container.VolumeMounts {
		dir, err := p.mount(ctx, mount.Name)
		if err != nil {
			return nil, err
		}
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, "="+mount.MountPath, "="+dir)
		}
	}
	for i, arg := range args {
		if name, port, found := strings.Cut(arg, "=:"); found {
			args[i] = name + "=" + p.Address + ":" + port
		}
	}
	if token := p.Object.Spec.AutomountServiceAccountToken; token == nil || *token {
		kubeconfig, err := p.kubeconfig(ctx)
		if err != nil {
			return nil, err
		}
		args = append(args, "--kubeconfig="+kubeconfig)
	}
	command := exec.Command(p.kubelet.programOf(container.Image), args...)
	command.Dir = p.kubelet.dir
	command.Env = append([]string{"HOME=/nonexistent"}, environment(container)...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command, nil
}

// environment is that of a container whose variables refer to its memory limit and to each
// other.
func environment(container corev1.Container) (set []string) {
	values := map[string]string{}
	for _, variable := range container.Env {
		value := variable.Value
		if from := variable.ValueFrom; from != nil && from.ResourceFieldRef != nil && from.ResourceFieldRef.Resource == "limits.memory" {
			limit, unit := container.Resources.Limits[corev1.ResourceMemory], from.ResourceFieldRef.Divisor
			value = strconv.FormatInt(limit.Value()/max(unit.Value(), 1), 10)
		}
		for name, known := range values {
			value = strings.ReplaceAll(value, "$("+name+")", known)
		}
		values[variable.Name] = value
		set = append(set, variable.Name+"="+value)
	}
	return set
}

// kubeconfig is for a token of the pod's account, as a kubelet asks for one.
func (p *Pod) kubeconfig(ctx context.Context) (string, error) {
	seconds := int64((2 * time.Hour).Seconds())
	token, err := p.kubelet.client.CoreV1().ServiceAccounts(p.Object.Namespace).CreateToken(ctx, p.Object.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Object.Name, UID: p.Object.UID}}},
		metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of account %s: %w", p.Object.Spec.ServiceAccountName, err)
	}
	const name = "pod"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: p.kubelet.admin.Host, CertificateAuthorityData: p.kubelet.admin.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	path := filepath.Join(p.kubelet.dir, p.Object.Name+".kubeconfig")
	return path, clientcmd.WriteToFile(*file, path)
}

// mount makes the folder of a volume and keeps it as its ConfigMap or Secret says. One
// that does not exist yet is waited for, as by a kubelet.
func (p *Pod) mount(ctx context.Context, name string) (string, error) {
	for _, volume := range p.Object.Spec.Volumes {
		if volume.Name != name {
			continue
		}
		dir := filepath.Join(p.kubelet.dir, p.Object.Name, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		before, err := p.content(ctx, volume)
		if err != nil {
			return "", err
		}
		if err := publish(dir, before); err != nil {
			return "", err
		}
		p.kubelet.running.Go(func() { p.refresh(ctx, volume, dir, before) })
		return dir, nil
	}
	return "", fmt.Errorf("no volume %s", name)
}

// refreshed is how long a kubelet takes to show a change, at most; a real one takes a
// minute and more.
const refreshed = time.Second

// refresh shows changes of a volume.
func (p *Pod) refresh(ctx context.Context, volume corev1.Volume, dir string, before map[string][]byte) {
	_ = wait.PollUntilContextCancel(ctx, refreshed, false, func(ctx context.Context) (bool, error) {
		now, err := p.read(ctx, volume)
		if err == nil && !maps.EqualFunc(now, before, func(a, b []byte) bool { return string(a) == string(b) }) && publish(dir, now) == nil {
			before = now
		}
		select {
		case <-p.deleted:
			return true, nil
		default:
			return false, nil
		}
	})
}

func (p *Pod) content(ctx context.Context, volume corev1.Volume) (content map[string][]byte, err error) {
	var last error
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.deleted:
			return false, errors.New("deleted before its volumes were there")
		default:
		}
		content, last = p.read(ctx, volume)
		return last == nil, nil
	})
	return content, err
}

func (p *Pod) read(ctx context.Context, volume corev1.Volume) (map[string][]byte, error) {
	core := p.kubelet.client.CoreV1()
	switch {
	case volume.ConfigMap != nil:
		object, err := core.ConfigMaps(p.Object.Namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		content := map[string][]byte{}
		for name, text := range object.Data {
			content[name] = []byte(text)
		}
		return content, nil
	case volume.Secret != nil:
		object, err := core.Secrets(p.Object.Namespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return object.Data, nil
	}
	return nil, fmt.Errorf("volume %s: only ConfigMaps and Secrets", volume.Name)
}

// publish puts files into a folder as a kubelet does: in one step, through a link.
func publish(dir string, files map[string][]byte) error {
	content, err := os.MkdirTemp(dir, "..content-")
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(content, name), data, 0o600); err != nil {
			return err
		}
	}
	data := filepath.Join(dir, "..data")
	if err := os.Symlink(filepath.Base(content), data+"_tmp"); err != nil {
		return err
	}
	if err := os.Rename(data+"_tmp", data); err != nil {
		return err
	}
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}
