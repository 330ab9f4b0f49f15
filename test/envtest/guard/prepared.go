package guard

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dra-steward/dra-steward/test/envtest"
)

// loopback is where the program serves and the API server looks for it.
const loopback = "127.0.0.1"

// prepared is the rendered chart and how the program is started from it.
type prepared struct {
	dir     string
	objects []*unstructured.Unstructured
	args    []string
	// mounted is where the program finds the chart's ConfigMap.
	mounted string
	// authority signed the certificate, in PEM.
	authority []byte
	// address, health and metrics are the program's addresses, host:port.
	address, health, metrics string
}

// configure takes the configuration and the arguments from the chart's objects and
// replaces in them the addresses and folders of a pod by those of this process. The
// kubeconfig stands for the token that a pod mounts.
func (p *prepared) configure(certificates, kubeconfig string) error {
	configMap, deployment := p.find("ConfigMap"), p.find("Deployment")
	if configMap == nil || deployment == nil {
		return errors.New("the chart has no ConfigMap or no Deployment")
	}
	mounted, err := mount(configMap, filepath.Join(p.dir, "config"))
	if err != nil {
		return err
	}
	p.mounted = mounted
	p.args, err = arguments(deployment)
	if err != nil {
		return err
	}
	p.args = append(p.args, "--kubeconfig="+kubeconfig)
	if err := p.replace(map[string]string{"--config": filepath.Join(mounted, "config.yaml"), "--cert-dir": certificates}); err != nil {
		return err
	}
	return p.place()
}

// place gives the program addresses without a listener.
func (p *prepared) place() error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	p.address, p.health, p.metrics = ports[0], ports[1], ports[2]
	return p.replace(map[string]string{
		"--address":         p.address,
		"--health-address":  p.health,
		"--metrics-address": p.metrics,
		// No endpoint has to be removed here before requests cease.
		"--shutdown-delay": "0s",
	})
}

// account writes a kubeconfig file for the ServiceAccount of the chart's pods, which
// may do what the chart's roles allow and nothing else.
func (p *prepared) account(cluster *envtest.Cluster) (string, error) {
	deployment := p.find("Deployment")
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

// find returns the webhook's object of a kind; those of the controller have a label
// that says so.
func (p *prepared) find(kind string) *unstructured.Unstructured {
	for _, object := range p.objects {
		if object.GetKind() == kind && object.GetLabels()["app.kubernetes.io/component"] != "controller" {
			return object
		}
	}
	return nil
}

// replace sets flags that the Deployment has; one that it lacks is an error, since
// then the chart and this package have drifted apart.
func (p *prepared) replace(flags map[string]string) error {
	for flag, value := range flags {
		found := false
		for i, arg := range p.args {
			if strings.HasPrefix(arg, flag+"=") {
				p.args[i], found = flag+"="+value, true
			}
		}
		if !found {
			return fmt.Errorf("the chart's Deployment has no argument %s=…: %q", flag, p.args)
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

// freePorts returns n addresses on loopback without a listener.
func freePorts(n int) ([]string, error) {
	var addresses []string
	for range n {
		listener, err := net.Listen("tcp", loopback+":0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}
