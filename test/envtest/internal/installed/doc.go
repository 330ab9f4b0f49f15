// Package installed runs the chart as a cluster runs it: the rendered objects are applied
// as they are, the API server calls the Service, and the pods of the Deployments are
// processes of the real program.
//
// Pods need addresses that an endpoint may have; loopback addresses are not allowed. So
// [Main] runs the tests once more in a network namespace of its own, and a [Kubelet] gives
// each pod an address there. It replaces the kubelet of a real node: it starts the program
// with the arguments of the pod, the account's token and the volumes, asks the readiness
// probe, and ends the process as a kubelet does.
package installed
