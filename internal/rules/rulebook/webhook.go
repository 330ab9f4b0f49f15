package rulebook

import (
	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
)

func answer(id, doc string, kinds ...string) Entry {
	return Entry{ID: id, What: "answer of the webhook", Doc: doc, Kinds: kinds}
}

// answerEntries are what the webhook says of a write in addition to findings of rules.
func answerEntries() []Entry {
	evicting := []string{"DeviceTaintRule", v1alpha1.DeviceDrainKind, v1alpha1.DeviceReactionKind, v1alpha1.DeviceRollKind}
	return []Entry{
		answer(ruleid.GuardImpact, `A warning tells what a taint rule, a drain, a reaction or a roll affects now.

It counts the allocated devices, their claims and pods, and the PodDisruptionBudgets of those
pods. It informs, and no setting makes it an error; the policy DRA-RULE-004 has the thresholds.
The modes observe and audit of the guard leave it out.`, evicting...),
		answer(ruleid.GuardWindow, `Taint rules, drains, reactions and rolls that begin within minutes stay below the thresholds together.

The webhook adds the evictions that began within guard.window to those of the write, and refuses
a sum above the thresholds. The message names the remedies: wait, or acknowledge the sum. It has
the mode of the policy DRA-RULE-004.`, evicting...),
		answer(ruleid.GuardError, `The impact of a write that evicts pods is known before the write is admitted.

The webhook refuses the write while it cannot count the pods, for example until it has read all
claims. Writes that evict no more pods than before are always admitted. guard.onError: warn
makes it a warning.`, evicting...),
		answer(ruleid.PatchEffect, `A warning tells what a patch changes in the devices that exist.

It counts the devices that the patch matches, and those in which it adds, replaces or removes an
attribute or a capacity. It informs, and no setting makes it an error.`, v1alpha1.ResourceSlicePatchKind),
		answer(ruleid.PolicyError, `The policies are evaluated for each write.

The webhook refuses a write that a policy in the mode deny could not check, and says which part
failed. Of a policy that the failure belongs to, the message names the code instead.
policies.onError: warn makes it a warning.`, manifest.Kinds()...),
		answer(ruleid.PolicyConfigMap, `The policies of a ConfigMap are valid together with all others.

The webhook refuses the ConfigMap, and the current policies stay in force.`, "ConfigMap"),
	}
}

// requestEntries are what the webhook says of a request that it does not check.
func requestEntries() []Entry {
	all := manifest.Kinds()
	return []Entry{
		answer(ruleid.RequestAddress, `The webhook reads a bounded number of requests of an address at a time.

It reads only the first 4 KiB of more requests, from any client, so that one machine cannot take
all memory, and denies them with code 429. Requests of components of Kubernetes and of drivers
are admitted with the audit annotation unchecked. An API server sends fewer requests; look for
other clients of the webhook.`, all...),
		answer(ruleid.RequestBusy, `The webhook has capacity for the requests of each namespace and user.

It refuses a request where the same namespace or user has used its share. Write again later;
components of Kubernetes are not refused.`, all...),
		answer(ruleid.RequestDeadline, `The webhook checks an object in the time that the API server waits.

It refuses an object that takes longer. Make the object smaller, or write again later.`, all...),
		answer(ruleid.RequestSize, `The webhook reads requests of at most 7 MiB.

A request has at most two objects, and an API server stores objects of at most 3 MiB.`, all...),
		answer(ruleid.RequestError, `The webhook checks the kinds and versions that its configuration lists, in the form that API servers send.

Where an API server sends another request, the rules of the webhook configuration are wrong. The
message names the problem; nothing is wrong with the object. Writes of components of Kubernetes
and of drivers are admitted with the audit annotation unchecked. It is also the answer to a
request that is no AdmissionReview in JSON, and to one of which not even the UID arrives in time
(status 408).`, all...),
	}
}
