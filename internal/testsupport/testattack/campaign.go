package testattack

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/testsupport/testmemory"
)

// A Program is one that is attacked while others ask it.
type Program struct {
	PID int
	// Limit is the memory of its container.
	Limit int64
	// Targets are its ports and paths.
	Targets []Target
}

// Withstand attacks each target in turn, each time for so long. It fails the test if the program holds three quarters of its memory,
// or if less than 99 % of what others ask of any target is answered.
func (p Program) Withstand(t *testing.T, f Force, each time.Duration, attacks []Attack) {
	t.Helper()
	for _, target := range p.Targets {
		for _, attack := range attacks {
			if target.Plain && (attack.HTTP1 == nil || attack.Raw) {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d addresses: %s", target.Path, f.Addresses, attack.Name), func(t *testing.T) { p.withstand(t, f, each, target, attack) })
		}
	}
}

func (p Program) withstand(t *testing.T, f Force, each time.Duration, target Target, attack Attack) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), each)
	defer cancel()
	var running sync.WaitGroup
	var most, opened int64
	running.Go(func() { opened = f.Run(ctx, target, attack) })
	running.Go(func() { most = p.most(ctx, t) })
	var asked, answered atomic.Int64
	var failure atomic.Pointer[string]
	for _, honest := range p.Targets {
		client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
		defer client.CloseIdleConnections()
		running.Go(func() {
			_ = trickle(ctx, 20*time.Millisecond, func(int) error {
				asked.Add(1)
				if err := honest.ask(context.WithoutCancel(ctx), client); err != nil {
					failure.Store(new(honest.Path + ": " + err.Error()))
					return nil
				}
				answered.Add(1)
				return nil
			})
		})
	}
	running.Wait()
	t.Logf("%d connections; at most %d of %d MiB; %d of %d requests of others answered", opened, most>>20, p.Limit>>20, answered.Load(), asked.Load())
	if most >= p.Limit/4*3 {
		t.Errorf("the program holds %d MiB, three quarters of its limit are %d", most>>20, p.Limit/4*3>>20)
	}
	if a, all := answered.Load(), asked.Load(); a*100 < all*99 || all == 0 {
		t.Errorf("%d of %d requests of others are answered; one failed with %s", a, all, *failure.Load())
	}
}

// most is the most anonymous memory that the program holds until ctx ends.
func (p Program) most(ctx context.Context, t *testing.T) (most int64) {
	_ = trickle(ctx, 50*time.Millisecond, func(int) error {
		now, err := testmemory.Of(p.PID, "RssAnon")
		if err != nil {
			t.Error(err)
			return err
		}
		most = max(most, now)
		return nil
	})
	return most
}

// ask asks as an API server, a kubelet or Prometheus does.
func (target Target) ask(ctx context.Context, client *http.Client) error {
	scheme, method, body := "https", http.MethodPost, review
	if target.Plain {
		scheme, method, body = "http", http.MethodGet, ""
	}
	request, err := http.NewRequestWithContext(ctx, method, scheme+"://"+target.Address+target.Path+"?timeout=10s", strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || !target.Plain && !strings.Contains(string(answer), `"allowed":true`)) {
		err = fmt.Errorf("status %d: %.200s", response.StatusCode, answer)
	}
	return err
}
