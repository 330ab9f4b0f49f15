// Package schedulerperf runs workloads of scheduler_perf, the benchmarks that Kubernetes has
// for its scheduler, on kube-scheduler 1.37 with the plugin of dra-steward-scheduler and
// without it. It is a module of its own, since scheduler_perf needs all of the API server.
//
// That takes minutes to compile. So the benchmark has a build tag, with which only
// make test-long builds it:
//
//	go test -tags=schedulerperf -run='^$' -bench='/^dra$/ours/SchedulingWithResourceClaimTemplate/^fast$' -benchtime=1x -perf-scheduling-label-filter=
//
// The part of a name after the topic says which scheduler runs: "ours" or "stock".
package schedulerperf
