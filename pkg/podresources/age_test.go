package podresources_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// TestServerKeepsItsAnswer: if the kubelet does not answer, its last answer counts for a
// minute.
func TestServerKeepsItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := recorded(t)
		in.Listing.Complete = true
		var away error
		s := &podresources.Server{Read: func(context.Context) (podresources.Input, error) { return in, away }}
		if _, err := s.List(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		away = errors.New("no socket")
		<-time.After(59 * time.Second)
		if answer, err := s.List(t.Context(), nil); err != nil || len(answer.GetPodResources()) != len(in.Listing.Pods) {
			t.Errorf("%v, %v", answer, err)
		}
		<-time.After(2 * time.Second)
		if _, err := s.List(t.Context(), nil); status.Code(err) != codes.Unavailable {
			t.Errorf("%v, want Unavailable", err)
		}
	})
}

// TestServerOfHungKubelet: while the kubelet hangs, clients that wait for ten seconds get its last answer, also if
// they come while a read of others waits. After a minute they get an error.
func TestServerOfHungKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := recorded(t)
		in.Listing.Complete = true
		hung := false
		s := &podresources.Server{Read: func(ctx context.Context) (podresources.Input, error) {
			if hung {
				<-ctx.Done()
				return podresources.Input{}, ctx.Err()
			}
			return in, nil
		}}
		if _, err := s.List(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		hung = true
		var clients sync.WaitGroup
		for i := range 10 {
			clients.Go(func() {
				<-time.After(time.Duration(i) * 5 * time.Second / 2)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if answer, err := s.List(ctx, nil); err != nil || len(answer.GetPodResources()) != len(in.Listing.Pods) {
					t.Errorf("client %d: %v", i, err)
				}
			})
		}
		clients.Wait()
		<-time.After(2 * time.Minute)
		if _, err := s.List(t.Context(), nil); status.Code(err) != codes.Unavailable {
			t.Errorf("%v, want Unavailable", err)
		}
	})
}

// TestServerAge: an answer that is not of now has its age in a header.
func TestServerAge(t *testing.T) {
	in := recorded(t)
	in.Listing.Complete = true
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	v1.RegisterPodResourcesListerServer(server, &podresources.Server{Read: func(context.Context) (podresources.Input, error) { return in, nil }})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := v1.NewPodResourcesListerClient(conn)
	for _, test := range []struct {
		asOf time.Time
		want []string
	}{{time.Time{}, nil}, {time.Now().Add(-90 * time.Minute), []string{"5400"}}} {
		in.AsOf = test.asOf
		var header metadata.MD
		if _, err := client.List(t.Context(), &v1.ListPodResourcesRequest{}, grpc.Header(&header)); err != nil {
			t.Fatal(err)
		}
		if got := header.Get("dra-steward-age-seconds"); len(got) != len(test.want) || len(got) > 0 && got[0] != test.want[0] {
			t.Errorf("as of %s: age %v, want %v", test.asOf, got, test.want)
		}
	}
}
