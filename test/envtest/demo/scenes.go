package main

import "context"

// linted checks manifests without the cluster.
func (s *show) linted(ctx context.Context) error {
	s.title("Check manifests before they reach the cluster")
	return s.do(ctx, command{line: "dra-steward lint " + s.file("denied/too-many-tolerations.yaml"), code: 1, wants: "[request-tolerations-max]"})
}

// denied starts pods that use devices, and shows a rule that would evict all of them.
func (s *show) denied(ctx context.Context) error {
	s.title("Deny a mistake")
	s.say("Two pods use a GPU each. A taint rule whose selector is empty would evict both.")
	return s.do(ctx,
		command{line: "kubectl apply -f " + s.file("demo/1-devices.yaml"), hidden: true},
		command{line: "kubectl apply -f " + s.file("demo/2-training.yaml"), wants: "statefulset.apps/training created"},
		command{line: "kubectl rollout status statefulset/training --timeout=60s", hidden: true},
		command{line: "dra-steward devices", wants: "default/training-1"},
		command{line: "kubectl create -f " + s.file("denied/evicts-everything.yaml"), code: 1, wants: "dra-steward rule DRA-RULE-001"},
	)
}

// drained takes a device out of use, and asks why the evicted pod waits.
func (s *show) drained(ctx context.Context) error {
	s.title("A device gets sick: drain it within the budget")
	if err := s.do(ctx,
		command{line: "dra-steward drain node-1/gpu-1 --name gpu-1-sick --wait --timeout 60s", wants: "Drained"},
		command{line: unschedulable("training-1"), hidden: true},
	); err != nil {
		return err
	}
	s.say("The pod that replaces the evicted one waits.")
	if err := s.do(ctx, command{line: "dra-steward why pod/training-1", code: 1, wants: "drain --cancel"}); err != nil {
		return err
	}
	s.say("The budget keeps the other pod where it is.")
	return s.do(ctx, command{line: "dra-steward drain node-1/gpu-0 --dry-run", code: 1, wants: "blocked BudgetBlocked"})
}

// unschedulable is a command that succeeds when the scheduler has found no device for a pod.
func unschedulable(pod string) string {
	return "kubectl get pod " + pod + " -o jsonpath={.status.conditions} | grep 'cannot allocate all claims'"
}

// back returns the device to use.
func (s *show) back(ctx context.Context) error {
	s.title("The device is repaired: back in use")
	return s.do(ctx,
		command{line: "dra-steward drain --cancel gpu-1-sick", wants: "deleted"},
		command{line: "kubectl wait pod/training-1 --for=condition=Ready --timeout=60s", wants: "condition met"},
	)
}

// patched corrects an attribute, so that a pod gets the device.
func (s *show) patched(ctx context.Context) error {
	s.title("Correct what a driver publishes")
	return s.do(ctx,
		command{line: "kubectl apply -f " + s.file("demo/3-large.yaml"), hidden: true},
		command{line: unschedulable("large"), hidden: true},
		command{line: "dra-steward why pod/large", code: 1, wants: "H100"},
		command{line: "kubectl apply -f " + s.file("demo/4-patch.yaml"), wants: "created"},
		command{line: "kubectl wait pod/large --for=condition=Ready --timeout=60s", wants: "condition met"},
		command{line: "dra-steward devices", wants: "default/large"},
	)
}
