package selector_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dracel "k8s.io/dynamic-resource-allocation/cel"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/cost/selector"
	"github.com/dra-steward/dra-steward/internal/testsupport/corpus"
)

// ordinary are expressions that Kubernetes evaluates soon.
func ordinary() []string {
	return []string{
		"device.driver == 'gpu.example.com' && device.allowMultipleAllocations != true", "'text' in device.attributes['gpu.example.com']",
		"device.attributes['gpu.example.com'].text.startsWith('a') || device.attributes['gpu.example.com'].none == 'b'",
		"device.attributes['gpu.example.com'].?none.orValue(1) == 1", "device.attributes['gpu.example.com'].none == 1",
		"device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0", "quantity('1e9').add(quantity('5')).sub(1).asInteger() == 1000000004",
		"semver('1.2.3').isGreaterThan(semver('v1.0', true)) && !isSemver('1.2')", "isQuantity('12x')", "[3, 1, 2].sort() == [1, 2, 3]",
		"device.attributes['gpu.example.com'].text.matches('^a+$')", "device.attributes['gpu.example.com'].text.find('a{3}') == 'aaa'",
		"'a,b,c'.split(',').all(x, x in ['a', 'b', 'c'])", "'%s-%d'.format(['a', 3]) == 'a-3'", "'aaa'.replace('a', 'bb') == 'bbbbbb'",
		"cel.bind(dra, device.attributes['gpu.example.com'], dra.text.size() == 64)", "[1, 2, 3].map(x, x * 2).exists(x, x == 4)",
		"{'a': 1}['a'] == 1 && {'a': [1, 2]} == {'a': [1, 2]}", "sets.contains([1, 2], [2]) && [[1], [2]].flatten() == [1, 2]", "lists.range(5).sum() == 10",
		"optional.of(1).optMap(v, v + 1).orValue(0) == 2", "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.0.0.1')",
		"1 / 0 == 1 || true", "[1, 2].exists(x, x / 0 == 1)", "duration('1h') < duration('2h')", "dyn(1) == 'a'", "'b' + 'a' == 'ba'", "url('https://a.b/c').getHost() == 'a.b'",
		"[5, 3].sortBy(x, x)[0] == 3", "timestamp('2026-01-01T00:00:00Z').getFullYear('UTC') == 2026", "'a'.charAt(5) == ''", "quantity('1') == quantity('1000m')",
		"device.driver in ['" + strings.Repeat("x','", 2000) + "gpu.example.com']", strings.Repeat("device.driver == 'x' || ", 300) + "true",
		"[1, 2, 3].transformList(i, v, i + v) == [1, 3, 5]", "bytes('a') == b'a' && type(1) == int", "format.dns1123Label().validate('a') == optional.none()",
		"'aba'.lastIndexOf('a') == 2 && 'aba'.indexOf('a', 1) == 2 && ' a '.trim() == 'a'", "['a', 'b'].join('-') == 'a-b' && strings.quote('a') == '\"a\"'",
		"1 == 1.0 && 1u < 2 && -1 < 0 && 7 % 4 == 3", "[1, 2].distinct().reverse().slice(0, 1).first() == optional.of(2)", "'a'.matches('(')", "device.nothing", "1",
		"device.attributes['gpu.example.com'].text.matches(device.attributes['gpu.example.com'].text)", "'(' in ['a'] || 'a'.find('(') == ''",
	}
}

// expressionsIn returns the expressions of selectors in a manifest.
func expressionsIn(value any) (found []string) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if text, is := inner.(string); is && key == "expression" && strings.Contains(text, "device.") {
				found = append(found, text)
			}
			found = append(found, expressionsIn(inner)...)
		}
	case []any:
		for _, inner := range v {
			found = append(found, expressionsIn(inner)...)
		}
	}
	return found
}

// published are the expressions of public manifests, where there are any.
func published(t *testing.T) (found []string) {
	folder, err := corpus.Find()
	if err != nil {
		return nil
	}
	err = filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, document := range strings.Split(string(text), "\n---") {
			var object any
			if yaml.Unmarshal([]byte(document), &object) == nil {
				found = append(found, expressionsIn(object)...)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	t.Logf("%d expressions of public manifests", len(found))
	return slices.Compact(found)
}

// TestSameAsKubernetes compares value, error and cost with those of Kubernetes' own compiler.
func TestSameAsKubernetes(t *testing.T) {
	ours, theirs := &selector.Compiler{Features: features()}, dracel.GetCompiler(features())
	for _, expression := range slices.Concat(ordinary(), published(t)) {
		got, want := ours.Compile(expression, dracel.Options{}), theirs.CompileCELExpression(expression, dracel.Options{})
		if got.MaxCost != want.MaxCost || (got.Error == nil) != (want.Error == nil) {
			t.Errorf("%s: compiled with the cost %d and the error %v, want %d and %v", expression, got.MaxCost, got.Error, want.MaxCost, want.Error)
		}
		if got.Error != nil || want.Error != nil {
			continue
		}
		gotMatches, gotDetails, gotErr := got.DeviceMatches(t.Context(), deviceOf())
		wantMatches, wantDetails, wantErr := want.DeviceMatches(t.Context(), deviceOf())
		if gotMatches != wantMatches || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Errorf("%s: got %t, %v, want %t, %v", expression, gotMatches, gotErr, wantMatches, wantErr)
		}
		if gotErr == nil && *gotDetails.ActualCost() != *wantDetails.ActualCost() {
			t.Errorf("%s: costs %d, want %d", expression, *gotDetails.ActualCost(), *wantDetails.ActualCost())
		}
	}
}
