package report

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/audit"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/report"
	"github.com/dra-steward/dra-steward/internal/rules/policyoutcome"
)

// A Reader reads for other commands what report shows, and the policies of the release.
type Reader struct {
	// Source has no watcher.
	Source clusterread.Source
	// Namespace is that of the release, Flag the flag that sets it; Config is a file with the
	// configuration, empty for that of the release.
	Namespace, Flag, Config string
}

func (r Reader) options() reportOptions {
	return reportOptions{read: r.Source, config: r.Config, namespace: r.Namespace, flag: r.Flag}
}

// Report makes the report. What the command writes as warnings is among the notes.
func (r Reader) Report(ctx context.Context) (report.Report, error) {
	streams, warnings := captured()
	made, err := r.options().report(ctx, streams, time.Now())
	made.Notes = append(made.Notes, warnings()...)
	return made, err
}

// captured are streams, and a function that returns the lines of their warnings.
func captured() (cmdutil.Streams, func() []string) {
	var text bytes.Buffer
	return cmdutil.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &text}, func() (lines []string) {
		for line := range strings.Lines(text.String()) {
			lines = append(lines, strings.TrimPrefix(strings.TrimSpace(line), "warning: "))
		}
		return lines
	}
}

// Policies reads the policies of the release, with what they have said.
func (r Reader) Policies(ctx context.Context) (report.Policies, error) {
	streams, warnings := captured()
	o := r.options()
	seen, err := o.release(ctx, streams)
	if err != nil {
		return report.Policies{}, err
	}
	p, err := report.NewPolicies(audit.Options{Configuration: seen.file.StewardConfiguration, Policies: seen.set, Now: time.Now()})
	if err != nil {
		return p, seen.file.Locate(err)
	}
	p.Seen, p.Notes = seen.counters, append(seen.notes, warnings()...)
	for _, m := range seen.maps {
		if status, err := policyoutcome.Decode(m.Data); err == nil && len(status.Replicas) > 0 {
			p.Summary = status.Summary()
		}
	}
	if r.Source.Files != nil {
		return p, nil
	}
	config, err := r.Source.Client.Config(streams)
	if err != nil {
		return p, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return p, err
	}
	p.Events, err = policyEvents(ctx, client, r.Namespace)
	if apierrors.IsForbidden(err) {
		p.Notes, err = append(p.Notes, "what the policies said in events is unknown: you are not allowed to list the events of namespace "+r.Namespace), nil
	}
	return p, err
}

// policyEvents are the events about ConfigMaps in the namespace of the release.
func policyEvents(ctx context.Context, client kubernetes.Interface, namespace string) (all []*corev1.Event, _ error) {
	for _, reason := range []string{"PoliciesRefused", "PoliciesAccepted"} {
		found, err := clusterread.EventsBecause(ctx, client, namespace, reason)
		if err != nil {
			return nil, fmt.Errorf("events of namespace %s: %w", namespace, err)
		}
		all = append(all, found...)
	}
	return all, nil
}
