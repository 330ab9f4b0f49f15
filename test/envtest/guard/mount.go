package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dra-steward/dra-steward/test/chart"
)

// mount puts the content of a ConfigMap into a folder as the kubelet does: the files are
// links through the link ..data, which is exchanged in one step. It returns the folder.
func mount(configMap *unstructured.Unstructured, dir string) (string, error) {
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

// Configure gives the running program the ConfigMap of other values, as an upgrade of the
// chart does: everything else stays as it is. The program takes a moment to see it.
func (g *Guard) Configure(values map[string]any) error {
	objects, err := chart.Render(with(values, g.authority), chart.Options{KubeVersion: g.version})
	if err != nil {
		return err
	}
	p := prepared{objects: objects}
	configMap := p.find("ConfigMap")
	if configMap == nil {
		return fmt.Errorf("the chart has no ConfigMap")
	}
	_, err = mount(configMap, g.mounted)
	return err
}

// ConfigureText gives the running program a configuration file as it is, good or bad.
func (g *Guard) ConfigureText(text string) error {
	configMap := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"config.yaml": text}}}
	_, err := mount(configMap, g.mounted)
	return err
}
