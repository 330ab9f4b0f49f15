package why

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// An operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// An origin is the object that has the spec of a claim.
type origin struct {
	resource, namespace, name string
	// spec is the path of the spec of the claim in it.
	spec string
	// pod is the one for which the claim was created from a template, nil for others.
	pod *corev1.Pod
}

// edit returns the command that replaces the object by a changed one: the specs of claims
// and templates are immutable. Only another pod gets a claim from the changed template.
func (o origin) edit(operations ...operation) string {
	for i := range operations {
		operations[i].Path = o.spec + operations[i].Path
	}
	command := replaceObject(o.resource, o.namespace, o.name, operations...)
	if o.pod != nil {
		command += " && " + again(o.pod)
	}
	return command
}

func replaceObject(resource, namespace, name string, operations ...operation) string {
	return fmt.Sprintf("kubectl patch %s %s -n %s --type=json -p %s", resource, word(name), word(namespace), quote(marshal(operations))) + replaced
}

// replaced deletes what a command before it prints, and creates it again.
const replaced = " --dry-run=client -o yaml | kubectl replace --force -f -"

// mergePatch returns the command that changes fields of an object.
func mergePatch(resource, namespace, name string, fields any) string {
	command := "kubectl patch " + resource + " " + word(name)
	if namespace != "" {
		command += " -n " + word(namespace)
	}
	return command + " --type=merge -p " + quote(marshal(fields))
}

// editClass returns the command that opens a class in an editor, where only a person knows what is right.
func editClass(name string) string { return "kubectl edit deviceclass " + word(name) }

func marshal(value any) string {
	text := &strings.Builder{}
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return "{}" // only of what JSON has no form for
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// Command joins the words of a command. Words with characters that a shell interprets are
// quoted.
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = word(w)
	}
	return strings.Join(quoted, " ")
}

// word quotes a name if it has characters that a shell interprets.
func word(name string) string {
	plain := name != "" && strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._/:=", r))
	}) < 0
	if plain {
		return name
	}
	return quote(name)
}

// quote makes one word of a shell from text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// pointer joins the parts of a JSON pointer.
func pointer(parts ...any) string {
	text := &strings.Builder{}
	for _, part := range parts {
		text.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(fmt.Sprint(part)))
	}
	return text.String()
}

// list joins the first few of many.
func list(all []string, shown int) string {
	all = slices.Compact(slices.Clone(all))
	return plural.List(all, shown, len(all))
}
