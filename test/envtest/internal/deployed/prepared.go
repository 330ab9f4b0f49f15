package deployed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dra-steward/dra-steward/internal/testsupport/freeport"
	"github.com/dra-steward/dra-steward/test/chart"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/webhook"
)

// loopback is where the program serves and the API server looks for it.
const loopback = "127.0.0.1"

// Prepared is the rendered chart and how the program is started from it.
type Prepared struct {
	// Dir is the folder of its files.
	Dir     string
	Objects []*unstructured.Unstructured
	Args    []string
	// Mounted is where the program finds the chart's ConfigMap.
	Mounted string
	// Authority signed the certificate, in PEM.
	Authority []byte
	// Address, Health and Metrics are the program's addresses, host:port.
	Address, Health, Metrics string
}

// configure takes the configuration and the arguments from the chart's objects and
// replaces in them the addresses and folders of a pod by those of this process. The
// kubeconfig stands for the token that a pod mounts.
func (p *Prepared) configure(certificates, kubeconfig string) error {
	configMap, deployment := p.Find("ConfigMap"), p.Find("Deployment")
	if configMap == nil || deployment == nil {
		return errors.New("the chart has no ConfigMap or no Deployment")
	}
	mounted, err := Mount(configMap, filepath.Join(p.Dir, "config"))
	if err != nil {
		return err
	}
	p.Mounted = mounted
	p.Args, err = arguments(deployment)
	if err != nil {
		return err
	}
	p.Args = append(p.Args, "--kubeconfig="+kubeconfig)
	if err := p.replace(map[string]string{"--config": filepath.Join(mounted, "config.yaml"), "--cert-dir": certificates}); err != nil {
		return err
	}
	return p.Place()
}

// Place gives the program addresses without a listener.
func (p *Prepared) Place() error {
	for _, address := range []*string{&p.Address, &p.Health, &p.Metrics} {
		var err error
		if *address, err = freeport.Loopback(); err != nil {
			return err
		}
	}
	return p.replace(map[string]string{
		"--address":         p.Address,
		"--health-address":  p.Health,
		"--metrics-address": p.Metrics,
		// No endpoint has to be removed here before requests cease.
		"--shutdown-delay": "0s",
	})
}

// account writes a kubeconfig file for the ServiceAccount of the chart's pods, which
// may do what the chart's roles allow and nothing else.
func (p *Prepared) account(cluster *envtest.Cluster) (string, error) {
	deployment := p.Find("Deployment")
	if deployment == nil {
		return "", errors.New("the chart has no Deployment")
	}
	name, _, err := unstructured.NestedString(deployment.Object, "spec", "template", "spec", "serviceAccountName")
	if err != nil {
		return "", err
	}
	namespace := deployment.GetNamespace()
	return cluster.UserKubeconfig("system:serviceaccount:"+namespace+":"+name,
		"system:serviceaccounts", "system:serviceaccounts:"+namespace)
}

// Find returns the webhook's object of a kind; those of the controller have a label
// that says so.
func (p *Prepared) Find(kind string) *unstructured.Unstructured {
	for _, object := range p.Objects {
		if object.GetKind() == kind && object.GetLabels()["app.kubernetes.io/component"] != "controller" {
			return object
		}
	}
	return nil
}

// replace sets flags that the Deployment has; one that it lacks is an error, since
// then the chart and this package have drifted apart.
func (p *Prepared) replace(flags map[string]string) error {
	for flag, value := range flags {
		found := false
		for i, arg := range p.Args {
			if strings.HasPrefix(arg, flag+"=") {
				p.Args[i], found = flag+"="+value, true
			}
		}
		if !found {
			return fmt.Errorf("the chart's Deployment has no argument %s=…: %q", flag, p.Args)
		}
	}
	return nil
}

func arguments(deployment *unstructured.Unstructured) ([]string, error) {
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		return nil, fmt.Errorf("the chart's Deployment must have one container: %d, %v", len(containers), err)
	}
	container, _ := containers[0].(map[string]any)
	args, _, err := unstructured.NestedStringSlice(container, "args")
	return args, err
}

// Prepare makes the certificate, renders the chart and takes from it what the
// program is given.
func Prepare(cluster *envtest.Cluster, values map[string]any) (Prepared, error) {
	dir, err := os.MkdirTemp(cluster.Dir(), "guard-")
	if err != nil {
		return Prepared{}, err
	}
	certificates := filepath.Join(dir, "tls")
	if err := webhook.SelfSigned(certificates, []string{loopback}); err != nil {
		return Prepared{}, err
	}
	authority, err := os.ReadFile(filepath.Join(certificates, webhook.AuthorityFile))
	if err != nil {
		return Prepared{}, err
	}
	objects, err := chart.Render(With(values, authority), chart.Options{KubeVersion: cluster.Version()})
	if err != nil {
		return Prepared{}, err
	}
	p := Prepared{Dir: dir, Objects: objects, Authority: authority}
	kubeconfig, err := p.account(cluster)
	if err != nil {
		return Prepared{}, err
	}
	return p, p.configure(certificates, kubeconfig)
}

// With adds to values what every installation needs.
func With(values map[string]any, authority []byte) map[string]any {
	all := map[string]any{}
	for key, value := range values {
		all[key] = value
	}
	all["certificates"] = map[string]any{"mode": "provided", "existingSecret": "dra-steward-tls", "caBundle": string(authority)}
	return all
}

// Mount puts the content of a ConfigMap into a folder as the kubelet does: the files are
// links through the link ..data, which is exchanged in one step. It returns the folder.
func Mount(configMap *unstructured.Unstructured, dir string) (string, error) {
	files, _, err := unstructured.NestedStringMap(configMap.Object, "data")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	content, err := os.MkdirTemp(dir, "..content-")
	if err != nil {
		return "", err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(content, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	data := filepath.Join(dir, "..data")
	if err := os.Symlink(filepath.Base(content), data+"_tmp"); err != nil {
		return "", err
	}
	if err := os.Rename(data+"_tmp", data); err != nil {
		return "", err
	}
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return dir, nil
}
