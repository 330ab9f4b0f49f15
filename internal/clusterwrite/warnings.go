package clusterwrite

import (
	"context"

	"k8s.io/client-go/rest"
)

// Warnings are those of the API server about the requests of one context.
type Warnings struct{ Texts []string }

type warningsKey struct{}

// Collect returns a context whose warnings are kept, and not printed. Requests with it are made one
// after the other.
func Collect(ctx context.Context) (context.Context, *Warnings) {
	w := &Warnings{}
	return context.WithValue(ctx, warningsKey{}, w), w
}

// collecting keeps warnings for a context of [Collect], and hands on all others.
type collecting struct{ otherwise rest.WarningHandler }

func (c collecting) HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string) {
	if w, ok := ctx.Value(warningsKey{}).(*Warnings); ok {
		w.Texts = append(w.Texts, text)
	} else if c.otherwise != nil {
		c.otherwise.HandleWarningHeader(code, agent, text)
	}
}

// Collecting returns a configuration of clients that know [Collect].
func Collecting(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.WarningHandler, config.WarningHandlerWithContext = nil, collecting{config.WarningHandler}
	return config
}
