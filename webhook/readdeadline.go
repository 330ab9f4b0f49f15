package webhook

import (
	"net/http"
	"sync"
	"time"
)

// A readDeadline limits how long the body of a request may take to arrive. It sets the deadline
// of the connection only where there is need for it: in HTTP/2, setting one wakes the goroutine
// that serves the connection, and most bodies have arrived when they are read.
type readDeadline struct {
	control *http.ResponseController
	timer   *time.Timer

	mutex sync.Mutex
	at    time.Time
	ended bool
}

func newReadDeadline(control *http.ResponseController, at time.Time) *readDeadline {
	d := &readDeadline{control: control, at: at}
	d.mutex.Lock() // until there is a timer
	defer d.mutex.Unlock()
	d.timer = time.AfterFunc(time.Until(at), d.stay)
	return d
}

// stay leaves the deadline to the connection.
func (d *readDeadline) stay() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.timer.Stop(); !d.ended {
		_ = d.control.SetReadDeadline(d.at) // not all kinds of connections have one
	}
}

// end ends the deadline.
func (d *readDeadline) end() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.ended = true
	if !d.timer.Stop() {
		_ = d.control.SetReadDeadline(time.Time{})
	}
}

// close leaves the deadline as it is when the handler returns. A timer that has fired may still wait to
// set it, and setting it after that panics.
func (d *readDeadline) close() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.ended = true
	d.timer.Stop()
}
