package clusterread

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/internal/kubernetes/servergates"
)

// SchedulerMetrics say where the metrics of kube-scheduler are.
type SchedulerMetrics struct {
	// Target is a URL, or a pod as NAMESPACE/POD or NAMESPACE/POD:PORT. Empty is not known.
	Target string
	// TokenFile has the bearer token for a URL.
	TokenFile string
}

// AddFlags adds the flags.
func (s *SchedulerMetrics) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&s.Target, "scheduler-metrics", "", "metrics of kube-scheduler, for its feature gates: a URL such as https://localhost:10259/metrics, or its pod as NAMESPACE/POD[:PORT]")
	f.StringVar(&s.TokenFile, "scheduler-token-file", "", "with a URL in --scheduler-metrics: file with a bearer token that is allowed to read /metrics")
}

const (
	// metricsTimeout bounds how long metrics are read.
	metricsTimeout = 10 * time.Second
	// schedulerPort is the default one of kube-scheduler.
	schedulerPort = "10259"
)

// read finds out the gates of kube-scheduler. Metrics that are forbidden are no error.
func (s SchedulerMetrics) read(ctx context.Context, r *reading, l *Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	if s.Target != "" {
		reported, err := s.scheduler(ctx, r)
		if err == nil {
			l.Scheduler = reported.Version
			l.Gates = gates.With(reported.Gates, l.Minor, "the metrics of kube-scheduler, "+s.Target)
			return nil
		}
		if !errors.Is(err, servergates.ErrDenied) {
			// It is not wrapped: the connection that failed is not that to the API server.
			return fmt.Errorf("--scheduler-metrics %s: %v", s.Target, err)
		}
		l.Notes = append(l.Notes, fmt.Sprintf("you are not allowed to read the metrics of kube-scheduler, %s: its feature gates are unknown", s.Target))
	}
	reported, err := servergates.Read(ctx, r.client.Discovery().RESTClient())
	l.Gates = servergates.Of(reported, err, l.Minor)
	return nil
}

// scheduler reads the metrics of the target.
func (s SchedulerMetrics) scheduler(ctx context.Context, r *reading) (gates.Reported, error) {
	if strings.Contains(s.Target, "://") {
		return s.ofURL(ctx)
	}
	namespace, pod, ok := strings.Cut(s.Target, "/")
	pod, port, given := strings.Cut(pod, ":")
	if !given {
		port = schedulerPort
	}
	if !ok || namespace == "" || pod == "" || port == "" || strings.Contains(pod, "/") {
		return gates.Reported{}, errors.New("must be a URL, NAMESPACE/POD or NAMESPACE/POD:PORT")
	}
	request := r.client.CoreV1().RESTClient().Get().Namespace(namespace).Resource("pods").
		Name(utilnet.JoinSchemeNamePort("https", pod, port)).SubResource("proxy").Suffix("metrics")
	return servergates.Parse(request.Stream(ctx))
}

// ofURL reads metrics without the API server. The certificate of a component is usually its
// own: on this host, to which port-forward leads, it is not verified. The token goes to
// nothing else that is not verified.
func (s SchedulerMetrics) ofURL(ctx context.Context) (gates.Reported, error) {
	at, err := url.Parse(s.Target)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return gates.Reported{}, errors.New("must be an http or https URL")
	}
	ip := net.ParseIP(at.Hostname())
	local := at.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if s.TokenFile != "" && at.Scheme != "https" && !local {
		return gates.Reported{}, errors.New("a token is sent by https only")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Target, nil)
	if err != nil {
		return gates.Reported{}, err
	}
	if s.TokenFile != "" {
		token, err := os.ReadFile(s.TokenFile)
		if err != nil {
			return gates.Reported{}, fmt.Errorf("--scheduler-token-file: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: local}, DisableKeepAlives: true},
		// A redirection can lead away from this host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return gates.Reported{}, err
	}
	switch response.StatusCode {
	case http.StatusOK:
		return servergates.Parse(response.Body, nil)
	case http.StatusUnauthorized, http.StatusForbidden:
		err = servergates.ErrDenied
	default:
		err = errors.New(response.Status)
	}
	return gates.Reported{}, errors.Join(err, response.Body.Close())
}
