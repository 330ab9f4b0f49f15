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

// Watch calls reload whenever the file at path may have changed, and from time to
// time, until ctx ends. It watches the folder, since a mounted ConfigMap changes by
// a link next to the file and editors replace the file. An error says that the system
// does not report changes; then it calls reload from time to time only.
func Watch(ctx context.Context, path string, reload func(), failed func(error)) {
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
	reload() // what has changed since it was read
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-errs:
			failed(err)
			reload() // events may be lost
		case <-events:
			reload()
		case <-ticker.C:
			reload()
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
