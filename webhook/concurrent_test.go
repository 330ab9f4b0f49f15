package webhook_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// TestAllAPIServersAreOneAddress: an address that is the only one to ask may have 1,000 reviews of 32 KiB at the same time,
// by either version of HTTP. The time to answer is long: client and server share the processor of the test.
func TestAllAPIServersAreOneAddress(t *testing.T) {
	const reviews = 1000
	object := bytes.Replace(claim(1), []byte(`"metadata":{`), fmt.Appendf(nil, `"metadata":{"annotations":{"example.com/notes":%q},`, strings.Repeat("x", 31<<10)), 1)
	body := reviewOf(t, "v1", by("jane", "team-a", create("ResourceClaim", object)))
	for _, http2 := range []bool{false, true} {
		server := start(t, review.Reviewer{}, func(s *webhook.Server) { s.Bounds.Timeout = time.Minute })
		connections := reviews // that are open: with 1,000 handshakes at once the test measures those
		if http2 {
			connections = reviews / 10
		}
		var clients []*http.Client
		for range connections {
			clients = append(clients, server.newClient(t, http2))
		}
		for _, client := range clients {
			if _, err := send(client, server.address, body); err != nil {
				t.Fatal(err)
			}
		}
		var sending sync.WaitGroup
		var refused atomic.Int64
		var failure atomic.Pointer[error]
		for i := range reviews {
			client := clients[i%len(clients)]
			sending.Go(func() {
				if _, err := send(client, server.address, body); err != nil {
					refused.Add(1)
					failure.Store(&err)
				}
			})
		}
		sending.Wait()
		if n := refused.Load(); n > 0 {
			t.Errorf("HTTP/2 %v: %d of %d reviews are refused; one with %v", http2, n, reviews, *failure.Load())
		}
	}
}
