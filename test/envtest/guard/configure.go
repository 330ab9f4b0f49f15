package guard

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dra-steward/dra-steward/test/chart"
	"github.com/dra-steward/dra-steward/test/envtest/internal/deployed"
)

// Configure gives the running program the ConfigMap of other values, as an upgrade of the
// chart does: everything else stays as it is. The program takes a moment to see it.
func (g *Guard) Configure(values map[string]any) error {
	objects, err := chart.Render(deployed.With(values, g.authority), chart.Options{KubeVersion: g.version})
	if err != nil {
		return err
	}
	p := deployed.Prepared{Objects: objects}
	configMap := p.Find("ConfigMap")
	if configMap == nil {
		return fmt.Errorf("the chart has no ConfigMap")
	}
	_, err = deployed.Mount(configMap, g.mounted)
	return err
}

// ConfigureText gives the running program a configuration file as it is, good or bad.
func (g *Guard) ConfigureText(text string) error {
	configMap := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"config.yaml": text}}}
	_, err := deployed.Mount(configMap, g.mounted)
	return err
}
