package proc

import (
	"bytes"
	"sync"
)

// A Log keeps what is written to it. The zero value is empty; its methods are safe for
// concurrent use.
type Log struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

// String is what has been written so far.
func (l *Log) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}
