package chart

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/dra-steward/dra-steward/charts"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

func TestRefusedValues(t *testing.T) {
	for name, tt := range map[string]struct {
		values values
		want   string
	}{
		"misspelt":                     {values{"replicas": 3}, "'replicas' not allowed"},
		"misspelt limit":               {values{"limits": values{"taintPerDevice": 3}}, "'taintPerDevice' not allowed"},
		"limit above upstream":         {values{"limits": values{"taintsPerDevice": 17}}, "/limits/taintsPerDevice"},
		"limit of zero":                {values{"limits": values{"taintsPerDevice": 0}}, "/limits/taintsPerDevice"},
		"limit with a fraction":        {values{"limits": values{"taintsPerDevice": 1.5}}, "/limits/taintsPerDevice"},
		"finalizer mode":               {values{"defaults": values{"finalizer": "always"}}, "/defaults/finalizer"},
		"schema of no driver":          {values{"opaqueParameters": values{"schemas": []any{values{"type": "object"}}}}, "x-dra-driver"},
		"unknown severity":             {values{"rules": values{"claim-devices-max": values{"severity": "deny"}}}, "/rules/claim-devices-max/severity"},
		"exemption without end":        {values{"exemptions": []any{values{"rules": []any{"*"}, "users": []any{"jane"}, "reason": "so"}}}, "missing property 'expires'"},
		"unknown rule":                 {values{"rules": values{"claim-device-max": values{"severity": "warning"}}}, `rules: there is no rule "claim-device-max"; did you mean "claim-devices-max"?`},
		"unknown policy":               {values{"policies": values{"modes": values{"DRA-TOL-01": "deny"}}}, `policies.modes: there is no policy "DRA-TOL-01"; did you mean "DRA-TOL-001"?`},
		"unknown parameter":            {values{"policies": values{"parameters": values{"DRA-TOL-002": values{"key": []any{"a"}}}}}, `policies.parameters.DRA-TOL-002: there is no parameter "key"; did you mean "keys"?`},
		"unknown in namespaces":        {values{"policies": values{"namespaces": []any{values{"names": []any{"a"}, "modes": values{"DRA-TOL-9": "deny"}}}}}, `policies.namespaces[0].modes: there is no policy "DRA-TOL-9"; did you mean "DRA-TOL-001"?`},
		"unknown exemption":            {values{"exemptions": []any{values{"rules": []any{"DRA-TOL-01"}, "users": []any{"jane"}, "reason": "so", "expires": "2099-01-01T00:00:00Z"}}}, `exemptions[0].rules[0]: there is no rule or policy "DRA-TOL-01"; did you mean "DRA-TOL-001"?`},
		"misspelt driver":              {values{"drivers": values{"gpu.example.com": values{"user": []any{"jane"}}}}, "'user' not allowed"},
		"window too long":              {values{"defaults": values{"timeAddedWindow": "61s"}}, "/defaults/timeAddedWindow"},
		"failurePolicy":                {values{"webhooks": values{"claims": values{"failurePolicy": "Maybe"}}}, "/webhooks/claims/failurePolicy"},
		"Fail for slices":              {values{"webhooks": values{"slices": values{"failurePolicy": "Fail"}}}, "'failurePolicy' not allowed"},
		"Fail for taint rules":         {values{"webhooks": values{"taintRules": values{"failurePolicy": "Fail"}}}, "'failurePolicy' not allowed"},
		"Fail for the status":          {values{"webhooks": values{"claimStatus": values{"failurePolicy": "Fail"}}}, "'failurePolicy' not allowed"},
		"timeout":                      {values{"webhooks": values{"claims": values{"timeoutSeconds": 30}}}, "/webhooks/claims/timeoutSeconds"},
		"timeout of the status":        {values{"webhooks": values{"claimStatus": values{"timeoutSeconds": 3}}}, "/webhooks/claimStatus/timeoutSeconds"},
		"digest":                       {values{"image": values{"digest": "latest"}}, "/image/digest"},
		"tracing endpoint":             {values{"tracing": values{"endpoint": "collector:4318"}}, "/tracing/endpoint"},
		"tracing part":                 {values{"tracing": values{"sampled": 2}}, "/tracing/sampled"},
		"replicas":                     {values{"replicaCount": 0}, "/replicaCount"},
		"certificate mode":             {values{"certificates": values{"mode": "magic"}}, "/certificates/mode"},
		"no certificate":               {values{"certificates": values{"mode": "provided"}}, "kubectl -n dra-steward create secret tls"},
		"only a Secret":                {values{"certificates": values{"mode": "provided", "existingSecret": "a"}}, `-addext "subjectAltName=DNS:dra-steward.dra-steward.svc"`},
		"encoded caBundle":             {values{"certificates": values{"mode": "provided", "existingSecret": "a", "caBundle": "TUFB"}}, "--set-file certificates.caBundle"},
		"a Secret, no mode":            {values{"certificates": values{"existingSecret": "a"}}, "are for certificates.mode provided, which is selfManaged"},
		"a Secret of no mode":          {values{"certificates": values{"mode": "certManager", "existingSecret": "a"}}, "are for certificates.mode provided, which is certManager"},
		"validity":                     {values{"certificates": values{"selfManaged": values{"validity": "90d"}}}, "/certificates/selfManaged/validity"},
		"kind of no issuer":            {values{"certificates": values{"mode": "certManager", "certManager": values{"issuerRef": values{"kind": "ClusterIssuer"}}}}, "issuerRef"},
		"proofs in a system namespace": {values{"controller": values{"reactions": values{"enabled": true, "proofs": values{"enabled": true, "namespace": "kube-system"}}}}, "/controller/reactions/proofs/namespace"},
		"a system namespace":           {values{"node": values{"enabled": true, "createNamespace": true, "namespace": "kube-public"}}, "kube-public is a namespace of Kubernetes"},
		"a port":                       {values{"ports": values{"webhook": 0}}, "/ports/webhook"},
		"no component for it":          {values{"certificates": values{}, "controller": values{"enabled": false}}, "controller.enabled false"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(with(tt.values), Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestConfiguration reads the rendered file with the code that serve reads it with.
func TestConfiguration(t *testing.T) {
	for name, v := range map[string]values{
		"minimal":        with(nil),
		"everything":     everything(),
		"off":            with(values{"defaults": values{"finalizer": "off"}}),
		"a bare off":     with(values{"defaults": values{"finalizer": false}}),
		"limits removed": with(values{"limits": nil}),
	} {
		t.Run(name, func(t *testing.T) {
			r := render(t, v, Options{})
			c, err := config.Parse("config.yaml", []byte(r.config.Data["config.yaml"]))
			if err != nil {
				t.Fatal(err)
			}
			var document any
			if err := yaml.Unmarshal([]byte(r.config.Data["config.yaml"]), &document); err != nil {
				t.Fatal(err)
			}
			if err := configurationSchema(t).Validate(document); err != nil {
				t.Errorf("the published schema refuses the file: %v", err)
			}
			if _, err := review.New(c.StewardConfiguration); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(name, "off") && c.Defaults.Finalizer != "off" {
				t.Errorf("finalizer is %q, want off", c.Defaults.Finalizer)
			}
			if name == "everything" && (c.Limits.DevicesPerSlice != 10 || c.Limits.DevicesPerClaim != 1 || len(c.Exemptions) != 1 ||
				len(c.SystemUsers) != 1 || len(c.Drivers) != 1 || c.Server.KubernetesVersion != "1.36" || len(c.Server.FeatureGates) != 1) {
				t.Errorf("got %+v, want the values", c.StewardConfiguration)
			}
			if name == "everything" && len(c.OpaqueParameters.Schemas) != 1 {
				t.Errorf("schemas are %s, want that of the values", c.OpaqueParameters.Schemas)
			}
		})
	}
}

func configurationSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	return compiler.MustCompile("schema.json")
}

// TestSchemaRefuses what the code refuses.
func TestSchemaRefuses(t *testing.T) {
	const head = "apiVersion: dra-steward.io/v1alpha1\nkind: StewardConfiguration\n"
	for text, bad := range map[string]bool{
		head: false,
		head + "limits: {taintsPerDevice: 16}\nrules: {claim-empty: {severity: off}}": false,
		head + "systemUsers: []":                             false,
		"kind: StewardConfiguration":                         true,
		head + "limits: {taintsPerDevice: 17}":               true,
		head + "limits: {taintPerDevice: 1}":                 true,
		head + "defaults: {finalizer: always}":               true,
		head + "rules: {claim-empty: {severity: deny}}":      true,
		head + "exemptions: [{rules: ['*'], users: [jane]}]": true,
		head + "drivers: {a: {user: [jane]}}":                true,
		head + "server: {kubernetesVersion: 1.36}":           true,
	} {
		var document any
		if err := yaml.Unmarshal([]byte(text), &document); err != nil {
			t.Fatal(err)
		}
		file, err := config.Parse("config.yaml", []byte(text))
		if err == nil {
			_, err = review.New(file.StewardConfiguration)
		}
		if schema := configurationSchema(t).Validate(document); (schema != nil) != bad || (err != nil) != bad {
			t.Errorf("%s\nschema: %v\ncode: %v\nwant refused: %t", text, schema, err, bad)
		}
	}
}

// TestConfigurationChangeKeepsPods: the configuration is taken over while running, so
// that nothing of it may be in the pods.
func TestConfigurationChangeKeepsPods(t *testing.T) {
	template := func(v values) any { return render(t, with(v), Options{}).deployment.Spec.Template }
	changed := values{"limits": values{"devicesPerSlice": 3}, "rules": values{"claim-empty": values{"severity": "off"}}}
	if diff := cmp.Diff(template(nil), template(changed)); diff != "" {
		t.Errorf("a change of the configuration replaces the pods:\n%s", diff)
	}
	for _, mount := range render(t, with(nil), Options{}).deployment.Spec.Template.Spec.Containers[0].VolumeMounts {
		if mount.SubPath != "" {
			t.Errorf("%s: a change does not arrive through a subPath", mount.MountPath)
		}
	}
}

// TestLimitsAreUpstreams compares schema and comments with the API's constants.
func TestLimitsAreUpstreams(t *testing.T) {
	limits := schemaOf(t).Properties["limits"].Properties
	for _, field := range validate.LimitFields() {
		if limit := limits[field.Name]; limit == nil || limit.Maximum != field.Upstream {
			t.Errorf("values.schema.json: limits.%s must have the maximum %d", field.Name, field.Upstream)
		}
		delete(limits, field.Name)
	}
	for name := range limits {
		t.Errorf("values.schema.json: limits.%s is no limit that dra-steward knows", name)
	}
}

type schemaNode struct {
	Maximum    int
	Properties map[string]*schemaNode
}

func schemaOf(t *testing.T) (root *schemaNode) {
	t.Helper()
	if err := json.Unmarshal(read(t, "values.schema.json"), &root); err != nil {
		t.Fatal(err)
	}
	return root
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := charts.FS.ReadFile(charts.Name + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
