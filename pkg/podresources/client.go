package podresources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// DefaultSocket is where kubelets listen. Mount its folder, not the socket: after a
// restart of the kubelet it is another file.
const DefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

// defaultStartupGrace is how long after its start a kubelet may not know its pods yet. An
// empty list was seen for half a second; a kubelet that waits for its API server, or
// for drivers, takes longer.
const defaultStartupGrace = time.Minute

// maxAnswer is the largest answer that is read. The kubelet's own client reads half of it.
// One pod with a driver that fails can make the answer grow without bound
// (kubernetes#141335); one of 17.8 MB was seen.
const maxAnswer = 32 << 20

// ErrTooLarge means that the kubelet's answer has more than 32 MiB.
var ErrTooLarge = errors.New("the answer of the kubelet has more than 32 MiB")

// retries waits when the kubelet rejects a call: all clients of a node share 100 calls
// per second with bursts of 10. Five attempts are the most that gRPC makes.
const retries = `{"methodConfig": [{"name": [{"service": "v1.PodResourcesLister"}], "retryPolicy": {
	"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 2,
	"retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`

// Options say how to reach a kubelet. The zero value is right on most nodes.
type Options struct {
	// Socket is the path of the socket; empty means DefaultSocket.
	Socket string
	// StartupGrace is how long after the start of the kubelet a missing pod means nothing;
	// zero means a minute.
	StartupGrace time.Duration
}

// A Client asks the kubelet of this node. Its methods are safe for concurrent use.
type Client struct {
	options  Options
	rejected atomic.Int64
	calls    atomic.Int64

	mutex  sync.Mutex // guards what follows
	conn   *grpc.ClientConn
	socket fs.FileInfo // what conn was made for
}

// New returns a client. It connects with the first call.
func New(o Options) *Client {
	o.Socket = cmp.Or(o.Socket, DefaultSocket)
	o.StartupGrace = cmp.Or(o.StartupGrace, defaultStartupGrace)
	return &Client{options: o}
}

// A Listing is the kubelet's answer about all of its pods.
type Listing struct {
	Pods []*v1.PodResources
	// Started is when the kubelet made its socket.
	Started time.Time
	// Complete says that the kubelet has been running for Options.Settle. Before, a pod
	// that is not listed may still hold all of its devices.
	Complete bool
	// Bytes is the size of the answer. Pods has each device of a claim once, the answer may repeat them
	// (kubernetes#141335).
	Bytes int
	// Largest is the pod that most of the answer is about.
	Largest types.NamespacedName
}

// List returns what the kubelet says about all of its pods at the time now. It is
// refused with an error of code ResourceExhausted if other clients use up the rate
// limit of the node for longer than about three seconds.
func (c *Client) List(ctx context.Context, now time.Time) (*Listing, error) {
	conn, started, err := c.dial()
	if err != nil {
		return nil, err
	}
	answer := &listAnswer{}
	if err := conn.Invoke(ctx, v1.PodResourcesLister_List_FullMethodName, &v1.ListPodResourcesRequest{}, answer); err != nil {
		return nil, c.explain("List", err)
	}
	return &Listing{Pods: answer.GetPodResources(), Started: started, Complete: now.Sub(started) >= c.options.StartupGrace,
		Bytes: answer.bytes, Largest: answer.largest}, nil
}

// Get returns what the kubelet says about one pod. That there is no such pod is an
// error of code Unknown in kubelets up to 1.37, which cannot be told from others.
func (c *Client) Get(ctx context.Context, namespace, name string) (*v1.PodResources, error) {
	conn, _, err := c.dial()
	if err != nil {
		return nil, err
	}
	answer, err := v1.NewPodResourcesListerClient(conn).Get(ctx, &v1.GetPodResourcesRequest{PodName: name, PodNamespace: namespace})
	if err != nil {
		return nil, c.explain("Get", err)
	}
	return answer.GetPodResources(), nil
}

// Allocatable returns CPUs, memory and devices of device plugins. Kubelets up to 1.37
// say nothing about DRA here.
func (c *Client) Allocatable(ctx context.Context) (*v1.AllocatableResourcesResponse, error) {
	conn, _, err := c.dial()
	if err != nil {
		return nil, err
	}
	answer, err := v1.NewPodResourcesListerClient(conn).GetAllocatableResources(ctx, &v1.AllocatableResourcesRequest{})
	if err != nil {
		return nil, c.explain("GetAllocatableResources", err)
	}
	return answer, nil
}

// Calls returns how many calls were sent, retries included, and how many of them the
// kubelet rejected by its rate limit.
func (c *Client) Calls() (sent, rejected int64) { return c.calls.Load(), c.rejected.Load() }

// Close ends the connection. A later call makes a new one.
func (c *Client) Close() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.conn == nil {
		return nil
	}
	conn := c.conn
	c.conn, c.socket = nil, nil
	return conn.Close()
}

// dial returns a connection to the socket that is there now, and when that was made.
func (c *Client) dial() (*grpc.ClientConn, time.Time, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	socket, err := os.Stat(c.options.Socket)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("socket of the kubelet: %w; is it running, and is the folder mounted?", err)
	}
	// An inode may be used again, so that the time counts too.
	if c.conn != nil && os.SameFile(c.socket, socket) && c.socket.ModTime().Equal(socket.ModTime()) {
		return c.conn, socket.ModTime(), nil
	}
	conn, err := grpc.NewClient("unix://"+c.options.Socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer), grpc.ForceCodecV2(newCompactCodec())),
		grpc.WithDefaultServiceConfig(retries), grpc.WithStatsHandler(counter{c}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, MaxDelay: time.Second}}))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("socket %s of the kubelet: %w", c.options.Socket, err)
	}
	if c.conn != nil {
		_ = c.conn.Close() // of a kubelet that is gone
	}
	c.conn, c.socket = conn, socket
	return conn, socket.ModTime(), nil
}

func (c *Client) explain(method string, err error) error {
	// The client has this code for an answer that is too large, too.
	if status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "larger than max") {
		return fmt.Errorf("PodResources %s at %s: %w: %w", method, c.options.Socket, ErrTooLarge, err)
	}
	if status.Code(err) == codes.ResourceExhausted {
		return fmt.Errorf("PodResources %s: other clients of %s use up the rate limit of the node: %w", method, c.options.Socket, err)
	}
	return fmt.Errorf("PodResources %s at %s: %w", method, c.options.Socket, err)
}

// counter counts attempts, of which gRPC makes several per call.
type counter struct{ client *Client }

func (counter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (counter) HandleConn(context.Context, stats.ConnStats)                       {}
func (c counter) HandleRPC(_ context.Context, event stats.RPCStats) {
	if end, ok := event.(*stats.End); ok {
		c.client.calls.Add(1)
		if status.Code(end.Error) == codes.ResourceExhausted && !strings.Contains(end.Error.Error(), "larger than max") {
			c.client.rejected.Add(1)
		}
	}
}
