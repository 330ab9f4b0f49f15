package cmdutil

import (
	"strings"

	"k8s.io/client-go/rest"
)

// warnings leaves out those about versions of objects that a command itself asks for, such as PodGroup v1beta1: whoever
// reads them cannot change that.
type warnings struct{ to rest.WarningHandler }

// HandleWarningHeader writes a warning of the API server.
func (w warnings) HandleWarningHeader(code int, agent, text string) {
	if !strings.Contains(text, " is deprecated in v") {
		w.to.HandleWarningHeader(code, agent, text)
	}
}
