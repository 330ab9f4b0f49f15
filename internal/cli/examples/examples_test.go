package examples

import (
	"reflect"
	"testing"

	"github.com/spf13/cobra"
)

func TestOf(t *testing.T) {
	root := &cobra.Command{Use: "dra-steward", Example: "  dra-steward lint a"}
	sub := &cobra.Command{Use: "devices", Example: `  dra-steward devices -o json >a.json
  dra-steward devices --selector 'a == "b"' -l "rack=r7"   # those of a rack
  kubectl get resourceslices -o yaml | dra-steward devices --from-files -
  dra-steward devices --from-files a.yaml
  dra-steward devices a; dra-steward devices b
  dra-steward devices 'a`}
	root.AddCommand(sub, &cobra.Command{Use: "why"})
	got := Of(root, func(c *cobra.Command) bool { return c != root })
	want := map[string][][]string{"devices": {{"devices", "-o", "json"}, {"devices", "--selector", `a == "b"`, "-l", "rack=r7"}}, "why": nil}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
