package fix_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/lint/fix"
	"github.com/dra-steward/dra-steward/internal/manifest"
)

// claim is a claim with tolerations in the given notation.
func claim(tolerations string) string {
	return "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a}\nspec:\n  devices:\n    requests:\n" +
		"    - name: gpu\n      exactly:\n        deviceClassName: gpu.example.com\n        tolerations:" + tolerations
}

// TestText shows every notation, as what stands behind "tolerations:".
func TestText(t *testing.T) {
	for name, tt := range map[string]struct{ in, want string }{
		"block":            {"\n        - key: a\n          value: b\n", "\n        - operator: Equal\n          key: a\n          value: b\n"},
		"not indented":     {"\n        -  key: a", "\n        -  operator: Equal\n           key: a"},
		"alone on a line":  {"\n        -\n          key: a # why\n", "\n        -\n          operator: Equal\n          key: a # why\n"},
		"comment first":    {"\n        - # why\n          key: a\n", "\n        - # why\n          operator: Equal\n          key: a\n"},
		"flow":             {" [{key: a}, {key: b}]\n", " [{operator: Equal, key: a}, {operator: Equal, key: b}]\n"},
		"flow with spaces": {" [ { key: a } ]\n", " [ { operator: Equal, key: a } ]\n"},
		"flow over lines":  {" [{\n  key: a, # why\n  }]\n", " [{\n  operator: Equal,\n  key: a, # why\n  }]\n"},
		"flow, comment":    {" [{ # why\n  key: a}]\n", " [{ operator: Equal, # why\n  key: a}]\n"},
		"empty":            {"\n        - {}\n", "\n        - {\"operator\": \"Equal\"}\n"},
		"JSON in YAML":     {` [{"key":"a"}, {"key": "b"}]`, ` [{"operator":"Equal","key":"a"}, {"operator": "Equal", "key": "b"}]`},
		"beyond ASCII":     {" [{key: \"ä€😀\"}, {key: b}] # ä\n", " [{operator: Equal, key: \"ä€😀\"}, {operator: Equal, key: b}] # ä\n"},
		"merge key":        {"\n        - <<: {key: a}\n          value: b\n", "\n        - operator: Equal\n          <<: {key: a}\n          value: b\n"},
		"one anchor, twice": {" &all [{key: a}]\n    - name: nic\n      exactly: {deviceClassName: a, tolerations: *all}\n",
			" &all [{operator: Equal, key: a}]\n    - name: nic\n      exactly: {deviceClassName: a, tolerations: *all}\n"},

		"there":            {" [{operator: Exists}]\n", ""},
		"there by merging": {"\n        - <<: {operator: Exists}\n          key: a\n", ""},
		"there but empty":  {" [{key: a, operator: \"\"}, {key: b, operator: null}]\n", ""},
		"anchored item":    {"\n        - &one\n          key: a\n", ""},
		"null":             {"\n        -\n", ""},
		"compact":          {" [key: a]\n", ""},
		"explicit key":     {"\n        - ? key\n          : a\n", ""},
		"wrong type":       {" [{key: 3}]\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in, want := claim(tt.in), claim(tt.want)
			if tt.want == "" {
				want = in
			}
			for _, ending := range []string{"\n", "\r\n"} {
				in, want := strings.ReplaceAll(in, "\n", ending), strings.ReplaceAll(want, "\n", ending)
				result := fix.Text(manifest.Reader{}, "claim.yaml", []byte(in))
				if string(result.Text) != want {
					t.Errorf("got  %q\nwant %q", result.Text, want)
				}
				if changed := len(result.Done) > 0; changed != (want != in) {
					t.Errorf("%d changes are reported", len(result.Done))
				}
			}
		})
	}
}

// TestTextAmongOthers: what stands around a claim stays, whether it can be read or not.
func TestTextAmongOthers(t *testing.T) {
	before := "\uFEFF# a comment\n---\nkind: [\n---\n...\n--- # another\n"
	after := "\n---\n\tno YAML\n---\n{\"kind\": \"ConfigMap\"} {\"kind\": 3}\n"
	result := fix.Text(manifest.Reader{}, "all.yaml", []byte(before+claim(" [{key: a}]")+after))
	if want := before + claim(" [{operator: Equal, key: a}]") + after; string(result.Text) != want {
		t.Errorf("got  %q\nwant %q", result.Text, want)
	}
}

// TestTextManyKinds: templates, alternatives, older versions, and items of lists.
func TestTextManyKinds(t *testing.T) {
	in := `apiVersion: v1
kind: List
items:
- apiVersion: resource.k8s.io/v1beta1
  kind: ResourceClaimTemplate
  metadata: {name: a}
  spec:
    spec:
      devices:
        requests:
        - {name: x, deviceClassName: a, tolerations: [{key: a}]}
        - name: "y"
          firstAvailable:
          - name: z
            deviceClassName: a
            tolerations:
            - key: b
- apiVersion: resource.k8s.io/v1beta2
  kind: ResourceClaim
  metadata: {name: a}
  spec: {devices: {requests: [{name: x, exactly: {deviceClassName: a, tolerations: [{key: c}]}}]}}
`
	result := fix.Text(manifest.Reader{}, "list.yaml", []byte(in))
	if len(result.Done) != 3 || len(result.Left) != 0 || strings.Count(string(result.Text), "operator: Equal") != 3 {
		t.Errorf("%v, left %v\n%s", result.Done, result.Left, result.Text)
	}
}

// FuzzText: twice is once, and no bytes are a reason to fail.
func FuzzText(f *testing.F) {
	for _, text := range []string{claim(" [{key: a}]"), claim("\n        - key: a\n"), claim(" &a [&b {key: a}, *b]"), "{}", "- {"} {
		f.Add([]byte(text), "a.yaml")
		f.Add([]byte(text), "a.json")
	}
	f.Fuzz(func(t *testing.T, text []byte, file string) {
		once := fix.Text(manifest.Reader{}, file, text)
		if len(once.Text)-len(text) < len(once.Done) && len(once.Done) > 0 && len(once.Text) <= len(text) {
			t.Errorf("%d changes in %d bytes", len(once.Done), len(once.Text)-len(text))
		}
		if twice := fix.Text(manifest.Reader{}, file, once.Text); !bytes.Equal(twice.Text, once.Text) {
			t.Errorf("from  %q\nonce  %q\ntwice %q", text, once.Text, twice.Text)
		}
	})
}

// TestWrite: the file keeps its mode, and a link stays one.
func TestWrite(t *testing.T) {
	folder := t.TempDir()
	file, link := filepath.Join(folder, "claim.yaml"), filepath.Join(folder, "link.yaml")
	if err := os.WriteFile(file, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Skip(err)
	}
	if err := fix.Write(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
	info, err := os.Lstat(file)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}

func Example() {
	text := []byte(claim("\n        - key: example.com/unhealthy # for the tests\n"))
	result := fix.Text(manifest.Reader{}, "claim.yaml", text)
	for _, change := range result.Done {
		fmt.Println(change)
	}
	// Output:
	// claim.yaml:11:11: ResourceClaim a: spec.devices.requests[0].exactly.tolerations[0].operator: Equal [toleration-operator-equal]
}

// TestSigned: a file that SOPS has signed stays as it is, in YAML and JSON.
func TestSigned(t *testing.T) {
	const claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a}\nspec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, tolerations: [{key: k, value: v}]}}]}}\n"
	for _, signature := range []string{"sops:\n  version: 3.9.0\n", "sops: {version: 3.9.0}\n", "sops:\r\n  version: 3.9.0\r\n"} {
		if result := fix.Text(manifest.Reader{}, "a.yaml", []byte(claim+signature)); string(result.Text) != claim+signature || len(result.Done) > 0 {
			t.Errorf("%q: %+v", signature, result.Done)
		}
	}
	if result := fix.Text(manifest.Reader{}, "a.yaml", []byte(claim)); len(result.Done) != 1 {
		t.Errorf("without a signature: %+v", result.Done)
	}
}
