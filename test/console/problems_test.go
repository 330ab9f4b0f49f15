package console_test

import (
	"slices"
	"sync"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
)

// problems are what a browser reports about pages.
type problems struct {
	mutex sync.Mutex
	texts []string
}

// hear keeps exceptions, errors and violations of policies.
func (p *problems) hear(event any) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		p.texts = append(p.texts, event.ExceptionDetails.Error())
	case *log.EventEntryAdded:
		if event.Entry.Level == log.LevelError || event.Entry.Level == log.LevelWarning {
			p.texts = append(p.texts, event.Entry.Text)
		}
	case *runtime.EventConsoleAPICalled:
		if event.Type == runtime.APITypeError || event.Type == runtime.APITypeWarning {
			p.texts = append(p.texts, string(event.Type))
		}
	}
}

func (p *problems) all() []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Clone(p.texts)
}
