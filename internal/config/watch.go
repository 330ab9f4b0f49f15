package config

import (
	"context"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// pollEvery is how often a watched file is looked at where the system reports no
// change: some network file systems never do.
const pollEvery = 10 * time.Second

// Watch calls look whenever the file at path may have changed, and from time to
// time, until ctx ends. It watches the folder, since a mounted ConfigMap changes by
// a link next to the file and editors replace the file. An error says that the system
// does not report changes; then look is called now and then only.
func Watch(ctx context.Context, path string, look func(), failed func(error)) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var events chan fsnotify.Event
	var errs chan error
	if watcher, err := watcher(filepath.Dir(path)); err != nil {
		failed(err)
	} else {
		defer watcher.Close()
		events, errs = watcher.Events, watcher.Errors
	}
	look() // what has changed since it was read
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-errs:
			failed(err)
			look() // events may be lost
		case <-events:
			look()
		case <-ticker.C:
			look()
		}
	}
}

func watcher(folder string) (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := w.Add(folder); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}
