package server

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/dra-steward/dra-steward/internal/serving/version"
	"github.com/dra-steward/dra-steward/webhook"
)

// flushTimeout is how long the spans that are left may take to be sent at the end.
const flushTimeout = 3 * time.Second

// tracingOptions say where spans are sent, and how many.
type tracingOptions struct {
	endpoint string
	sampled  float64
}

func tracingFlags(f *pflag.FlagSet, o *tracingOptions) {
	f.StringVar(&o.endpoint, "tracing-endpoint", "", "URL of an OpenTelemetry collector (OTLP over HTTP, such as http://collector:4318) to send a span for each request to; empty sends none")
	f.Float64Var(&o.sampled, "tracing-sampled", 0.01, "fraction of the requests for which a span is sent, 0 to 1, unless the API server's trace decides")
}

// recordingFlags are those of the log of decisions and of spans.
func recordingFlags(f *pflag.FlagSet, o *serveOptions) {
	decisionFlags(f, &o.decisions)
	tracingFlags(f, &o.tracing)
}

// recording is what handlers tell about requests to, and how that ends.
type recording struct {
	options webhook.Options
	end     func()
}

// recording prepares metrics, the log of decisions and spans.
func (o serveOptions) recording(registry *prometheus.Registry, log logr.Logger) (recording, error) {
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics, err := webhook.NewMetrics(registry)
	if err != nil {
		return recording{}, err
	}
	decisions, err := webhook.NewDecisions(o.decisions, log, registry)
	if err != nil {
		return recording{}, err
	}
	spans, err := o.tracing.start(log)
	return recording{webhook.Options{Log: log, Metrics: metrics, Decisions: decisions, Tracer: spans.tracer, Brief: o.briefAnswers}, spans.end}, err
}

// tracing records spans until its end.
type tracing struct {
	tracer trace.Tracer
	end    func()
}

// start prepares tracing. Without an endpoint nothing is recorded.
func (o tracingOptions) start(log logr.Logger) (tracing, error) {
	if !(o.sampled >= 0 && o.sampled <= 1) {
		return tracing{}, fmt.Errorf("--tracing-sampled %v: must be 0 to 1", o.sampled)
	}
	if o.endpoint == "" {
		return tracing{nil, func() {}}, nil
	}
	at, err := url.Parse(o.endpoint)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return tracing{}, fmt.Errorf("--tracing-endpoint %q: must be a URL such as http://collector:4318", o.endpoint)
	}
	if at.Path == "" || at.Path == "/" {
		at.Path = "/v1/traces"
	}
	// Nothing is sent before the first spans: an absent collector stops no request.
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(at.String()))
	if err != nil {
		return tracing{}, fmt.Errorf("--tracing-endpoint: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.V(1).Info("lost spans", "error", err.Error()) }))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.sampled))),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "dra-steward"), attribute.String("service.version", version.Get().Version),
			attribute.String("vcs.ref.head.revision", version.Get().Commit))),
	)
	return tracing{provider.Tracer("github.com/dra-steward/dra-steward/webhook"), func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.V(1).Info("lost spans", "error", err.Error())
		}
	}}, nil
}

// decisionFlags are those of the log of decisions.
func decisionFlags(f *pflag.FlagSet, s *webhook.DecisionSettings) {
	f.Float64Var(&s.Denied, "log-denied", 1, "fraction of the denied requests that is logged, 0 (none) to 1 (all)")
	f.Float64Var(&s.Warned, "log-warned", 0.1, "fraction of the requests with warnings that is logged, 0 (none) to 1 (all)")
	f.Float64Var(&s.PerSecond, "log-decisions-per-second", 50, "maximum number of denials and warnings logged per second; 0 = no limit")
}
