package campaign

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// Report writes what came out, for people.
func (c *Campaign) Report(out io.Writer) {
	fmt.Fprintf(out, "%s\n%d writes judged again after our mutation\n", &c.Tally, c.Mutated)
	for _, d := range c.Disagreements {
		fmt.Fprintf(out, "\n%s\n", d)
	}
}

// String is the disagreement with its case as YAML.
func (d Disagreement) String() string {
	text := fmt.Sprintf("DISAGREEMENT in %d cases: %s\n%s\ncase %s: %s", d.Count, d.Signature, d.Text, d.Case.ID, d.Case.Op)
	if d.Case.Subresource != "" {
		text += " of " + d.Case.Subresource
	}
	text += fmt.Sprintf(", gates %v\n%s", d.Case.Gates, asYAML(d.Case.Object))
	if d.Case.Old != nil {
		text += "--- stored:\n" + asYAML(d.Case.Old)
	}
	return text
}

func asYAML(object json.RawMessage) string {
	text, err := yaml.JSONToYAML(object)
	if err != nil {
		return string(object)
	}
	return string(text)
}
