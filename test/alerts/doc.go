// Package alerts holds the alerts and the dashboard of the chart, and the recipes of the pages, against Prometheus's own
// packages, on recorded series, and against the metrics that dra-steward has. It is a
// module of its own, so that importers of ours do not download Prometheus.
package alerts
