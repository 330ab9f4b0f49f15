package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A plugin that is added takes its place behind DefaultPreemption, unless that is added
// again, too, or the extension point says otherwise.
func TestPreemptsFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		plugins string
		want    bool
	}{
		"that of Kubernetes": {`{}`, false},
		"the plugin alone":   {`{multiPoint: {disabled: [{name: DynamicResources}], enabled: [{name: PatchedDynamicResources}]}}`, true},
		"both again": {`{multiPoint: {disabled: [{name: DynamicResources}, {name: DefaultPreemption}],
			enabled: [{name: PatchedDynamicResources}, {name: DefaultPreemption}]}}`, false},
		"one extension point": {`{multiPoint: {disabled: [{name: DynamicResources}], enabled: [{name: PatchedDynamicResources}]},
			postFilter: {enabled: [{name: PatchedDynamicResources}]}}`, true},
		"both extension points": {`{multiPoint: {disabled: [{name: DynamicResources}], enabled: [{name: PatchedDynamicResources}]},
			postFilter: {enabled: [{name: PatchedDynamicResources}]}, podGroupPostFilter: {enabled: [{name: PatchedDynamicResources}]}}`, false},
		"no preemption": {`{multiPoint: {disabled: [{name: DynamicResources}, {name: DefaultPreemption}], enabled: [{name: PatchedDynamicResources}]}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{plugins: " + tt.plugins + "}]\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			command := command()
			if err := command.ParseFlags([]string{"--config=" + file}); err != nil {
				t.Fatal(err)
			}
			configuration, err := configured(command.Flags())
			if err != nil {
				t.Fatal(err)
			}
			if got := preemptsFirst(configuration.Profiles[0]); got != tt.want {
				t.Errorf("got %t, with %v", got, configuration.Profiles[0].Plugins.MultiPoint.Enabled)
			}
		})
	}
}
