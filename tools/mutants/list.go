package main

// A mutant is one plausible bug: a text of a file that is replaced. The tests of the package
// must fail then.
type mutant struct {
	// name says what the bug does.
	name string
	// file is that of the tree, old occurs in it once.
	file, old, new string
	// tests is the package whose tests must fail, below the root of the module; empty for that
	// of the file.
	tests string
	// survives is the reason why no test can see the bug; empty for the others.
	survives string
}

// all returns the mutants by part.
func all() []mutant {
	var list []mutant
	for _, part := range [][]mutant{tolerations(), evictions(), trackers(), drains(), reactions(), rolls(), patches(), policies(), webhooks(), commands(), requests(), nodes(), versions(), schedulers()} {
		list = append(list, part...)
	}
	return list
}

func tolerations() []mutant {
	const file = "pkg/toleration/toleration.go"
	return []mutant{
		{name: "the longest toleration counts", file: file, old: `seconds < *period.Seconds`, new: `seconds > *period.Seconds`},
		{name: "negative seconds count", file: file, old: `max(*t.TolerationSeconds, 0)`, new: `*t.TolerationSeconds`},
		{name: "seconds count for every effect", file: file, old: `t.TolerationSeconds == nil || t.Effect != resourceapi.DeviceTaintEffectNoExecute`, new: `t.TolerationSeconds == nil`},
		{name: "an empty effect tolerates all", file: file, old: `toleration.Effect == "" && e.EmptyEffect == EmptyEffectNoSchedule`, new: `toleration.Effect == "None" && e.EmptyEffect == EmptyEffectNoSchedule`},
		{name: "only the first toleration counts", file: file, old: "		if !e.Tolerates(t, taint) {\n			continue", new: "		if !e.Tolerates(t, taint) {\n			break"},
	}
}

func evictions() []mutant {
	const decide, states, breaker, window = "pkg/evictor/decide.go", "pkg/evictor/podstates.go", "pkg/evictor/breaker.go", "pkg/evictor/window.go"
	return []mutant{
		{name: "failed pods are evicted", file: decide, old: `pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed`, new: `pod.Status.Phase == corev1.PodSucceeded`},
		{name: "pods without a node are evicted", file: decide, old: `case pod.Spec.NodeName == "":`, new: `case pod.Spec.NodeName == "none":`},
		{name: "terminating pods are evicted", file: decide, old: `case pod.DeletionTimestamp != nil:`, new: `case false:`},
		{name: "NoSchedule evicts", file: decide, old: `if taint.Effect != resourceapi.DeviceTaintEffectNoExecute {`, new: `if taint.Effect == resourceapi.DeviceTaintEffectNone {`},
		{name: "the time of the taint does not count", file: decide, old: `case !taint.TimeAdded.IsZero():`, new: `case false:`},
		{name: "the time of the allocation counts without the setting", file: decide, old: `from == StartMaxOfTaintAndAllocation &&`, new: `from != "" &&`},
		{name: "the latest reason decides", file: decide, old: `slices.MinFunc(reasons,`, new: `slices.MaxFunc(reasons,`},
		{name: "seconds overflow", file: decide, old: "	if seconds >= endOfTime.Unix()-start.Unix() {\n		return endOfTime\n	}\n", new: ""},
		{name: "tolerated until the end of time evicts", file: decide, old: `func (r Reason) never() bool { return r.At.Equal(endOfTime) }`, new: `func (r Reason) never() bool { return false }`},
		{name: "a recreated rule is the same cause", file: decide, old: `cmp.Compare(r.Taint.Rule.UID, s.Taint.Rule.UID),`, new: ``},
		{name: "a recreated pod keeps the state of the one before", file: states, old: `had != nil && had.uid != uid`, new: `had != nil && had.uid == ""`},
		{name: "a resumed pod is not queued", file: states, old: "		cs.count(c, func() { c.stage = waiting })\n		cs.queue.put(c, cs.begin(c))\n", new: "		cs.count(c, func() { c.stage = waiting })\n"},
		{name: "an unanswered deletion is never forgotten", file: states, old: `now.Before(c.unconfirmed.until)`, new: `true`},
		{name: "an unanswered deletion is forgotten", file: states, old: `c.unconfirmed = &unconfirmed{p, until.Add(lapsePeriod)}`, new: `c.unconfirmed = nil`},
		{name: "a deleted pod is decided again", file: states, old: "	case c.stage == done:\n		return unchanged\n", new: ""},
		{name: "a paused pod stays with the paused ones", file: states, old: `delete(cs.paused, c)`, new: ``},
		{name: "a postponed pod is not queued", file: states, old: `cs.queue.put(c, until)`, new: ``},
		{name: "the breaker lets every cause pass", file: breaker, old: `return over[pause{causeOf(r), ""}] == nil && over[pause{causeOf(r), namespace}] == nil`, new: `return true`},
		{name: "the pods of a tenant all count in other namespaces", file: window, old: `sum += min(s.weight(), (limit+1)/2)`, new: `sum += s.pods`},
		{name: "pods that are due in years count", file: window, old: `return now.Add(breakerCalm).Unix()`, new: `return now.Add(1 << 60).Unix()`},
		{name: "a tenant that is always active keeps the counts of others", file: window, old: `if namespace != only && only != "" {`, new: `if false {`},
		{name: "the breaker never resets", file: breaker, old: `delete(b.tripped, of)`, new: ``},
		{name: "a driver with one device taints all", file: breaker, old: `d.published > 1 && d.tainted == d.published`, new: `d.tainted == d.published`},
		{name: "a rule is the cause of a driver's taint", file: breaker, old: `if r.Taint.FromRule() {`, new: `if !r.Taint.FromRule() {`},
	}
}

func trackers() []mutant {
	const rule = "pkg/tracker/rule.go"
	return []mutant{
		{name: "a rule without a selector taints all", file: rule, old: "	switch s := r.selector; {\n	case s == nil:\n	case s.Driver != nil && s.Pool != nil:\n		addTo", new: "	switch s := r.selector; {\n	case s == nil:\n		rs.ofAny.all = append(rs.ofAny.all, r)\n	case s.Driver != nil && s.Pool != nil:\n		addTo"},
		{name: "a changed value of a taint is no change", file: rule, old: `a.Key == b.Key && a.Value == b.Value`, new: `a.Key == b.Key`},
		{name: "a recreated rule is the same rule", file: rule, old: `return r.source == other.source &&`, new: `return r.source.Name == other.source.Name &&`},
		{name: "a changed selector is no change", file: rule, old: `equality.Semantic.DeepEqual(r.selector, other.selector)`, new: `equality.Semantic.DeepEqual(r.selector == nil, other.selector == nil)`},
		{name: "rules of a pool do not match", file: rule, old: `rs.ofDriver[driver], rs.ofPool[pool], &rs.ofAny}`, new: `rs.ofDriver[driver], &rs.ofAny}`},
		{name: "a device rule that is removed stays", file: rule, old: `		delete(b.byDevice, *r.selector.Device)`, new: `		_ = left`},
		{name: "rules are in the order of their arrival", file: rule, old: `	slices.SortFunc(into.all, compareRules)`, new: ``},
		{name: "a rule without a driver needs one", file: rule, old: "	case s.Pool != nil:\n		addTo(&rs.ofPool, *s.Pool, r)", new: "	case s.Pool != nil && s.Device != nil:\n		addTo(&rs.ofPool, *s.Pool, r)"},
	}
}

func drains() []mutant {
	const terminating = "internal/drain/terminating.go"
	const choose, classify, decide, returns = "internal/drain/choose.go", "internal/drain/classify.go", "internal/drain/decide.go", "internal/drain/returns.go"
	return []mutant{
		{name: "the rate is not kept", file: choose, old: `next.After(in.Now) && !last.After(in.Now.Add(interval))`, new: `false`},
		{name: "a clock of the future stops the drain", file: choose, old: `next.After(in.Now) && !last.After(in.Now.Add(interval))`, new: `next.After(in.Now)`},
		{name: "the rate counts from a decision of another process", file: choose, old: `at = in.Now
`, new: `at = last.Time
`},
		{name: "a rule is older than it is", file: "internal/drain/cordon.go", old: `return at.Add(time.Second)`, new: `return at`},
		{name: "leaving pods do not count in their namespace", file: choose, old: `		l.namespaces[pod.Namespace]++
		l.nodes[pod.Spec.NodeName]++
	}
	return l`, new: `		_ = pod
	}
	return l`},
		{name: "the limit of a namespace is one more", file: choose, old: `l.namespaces[pod.Namespace] >= int(*l.perNamespace)`, new: `l.namespaces[pod.Namespace] > int(*l.perNamespace)`},
		{name: "a budget is spent twice at once", file: choose, old: `		l.budgets[budget.UID]++`, new: ``},
		{name: "a refused eviction counts", file: choose, old: `case outcome != Accepted:`, new: `case outcome == "":`},
		{name: "a pod that went without an answer does not count", file: choose, old: `outcome = Accepted`, new: `outcome = Refused`},
		{name: "a deadline after some time begins now", file: choose, old: `return d.CreationTimestamp.Add(spec.After.Duration), action`, new: `return d.CreationTimestamp.Time, action`},
		{name: "a claim reserved for something else blocks nothing", file: classify, old: `consumer.APIGroup != "" || consumer.Resource != "pods"`, new: `false`},
		{name: "pods of one owner leave together", file: classify, old: `			had[owner.UID]++`, new: ``},
		{name: "high priority leaves first", file: classify, old: `cmp.Compare(priority(a.Pod), priority(b.Pod))`, new: `cmp.Compare(priority(b.Pod), priority(a.Pod))`},
		{name: "a paused drain evicts", file: decide, old: `case in.Drain.Spec.Paused:`, new: `case false:`},
		{name: "a dry run evicts", file: decide, old: "	case in.Drain.Spec.DryRun:\n		return stop(", new: "	case false:\n		return stop("},
		{name: "evictions begin before the cordon", file: decide, old: "	case p.cordoning:\n		return stop", new: "	case false:\n		return stop"},
		{name: "a pod that is about to be asked by an EvictionRequest is evicted", file: "internal/controllers/devicedrain/step.go", old: `slices.Concat(decision.Evict, decision.Ask)`, new: `slices.Concat(decision.Evict)`},
		{name: "a drain evicts outside of its windows", file: decide, old: `case p.closed != closure{}:`, new: `case false:`},
		{name: "the thresholds do not stop a drain", file: decide, old: `case blocked.Reason == v1alpha1.BlockedThreshold || `, new: `case `},
		{name: "a pod with a grace period of a year leaves", file: terminating, old: `case EndsTooLate(pod, now):`, new: `case false:`},
		{name: "a pod is deleted again before the deadline", file: classify, old: `force && !in.Asked[pod.UID] && EndsTooLate`, new: `!in.Asked[pod.UID] && EndsTooLate`},
		{name: "a pod that is deleted again counts twice for limits", file: choose, old: `if pod.DeletionTimestamp != nil {`, new: `if pod.DeletionTimestamp != nil && l.take(pod, true) {`},
		{name: "a second deletion without an answer counts", file: terminating, old: `!(again && EndsTooLate(pod.Pod, in.Now))`, new: `!(again && false)`},
		{name: "a pod is deleted again until it shows that", file: "internal/controllers/devicedrain/evict.go", old: `!(now.Before(a.again[uid]) && drain.EndsTooLate(seen, now))`, new: `true`},
		{name: "a long UID of an owner is kept", file: "internal/drain/owner.go", old: `if owner != nil {`, new: `if false {`},
		{name: "new pods stop a drain that has begun", file: decide, old: `&& !begun:`, new: `:`},
		{name: "an interrupted cordon is not counted", file: decide, old: `!last.Time.Before(from)`, new: `true`},
		{name: "drained while claims remain", file: decide, old: `case n.Claims > 0:`, new: `case false:`},
		{name: "a paused drain deletes at the deadline", file: decide, old: `action == v1alpha1.DeadlineDelete && !in.Drain.Spec.Paused`, new: `action == v1alpha1.DeadlineDelete`},
		{name: "drained in the moment before a replacement", file: decide, old: "	if !until.After(in.Now) {\n		return false\n	}\n", new: "	if true {\n		return false\n	}\n"},
		{name: "a paused drain is drained at once", file: decide, old: `if c.is(kind).Reason != reason {`, new: `if c.is(kind).Reason == "" {`},
		{name: "a returned claim is tried at once", file: returns, old: `if !retry.After(in.Now) {`, new: `if true {`},
		{name: "attempts are not counted up", file: returns, old: `known.Count+1,`, new: `known.Count,`},
		{name: "attempts are kept without a bound", file: returns, old: `over > 0 {`, new: `over > maxAttempts {`},
	}
}

func patches() []mutant {
	const write = "pkg/patch/record/driverwrite.go"
	const result, record = "pkg/patch/result.go", "pkg/patch/record"
	return []mutant{
		{name: "a value below its policy is written", file: result, old: `effect&policyViolated != 0 || isList(`, new: `isList(`, tests: record},
		{name: "a changed class is not followed in slices", file: "internal/devices/slicemerge/merger.go", old: `m.stale.Swap(false) || m.classChanged()`, new: `m.stale.Swap(false)`},
		{name: "lists are written", file: result, old: `effect&policyViolated != 0 || isList(o.plan.entries[i].attribute)`, new: `effect&policyViolated != 0`, tests: record},
		{name: "a list that is not written takes room", file: "pkg/patch/merge.go", old: "	if w.storable && isList(e.attribute) {\n", new: "	if false {\n", tests: record},
		{name: "an unacceptable slice is written", file: write, old: "		refused = acceptable(slice)\n", new: "		_ = acceptable(slice)\n"},
		{name: "previous values are forgotten", file: write, old: `if e.InForce() && (patch == "" || !e.Written.Equal(written)) {`, new: `if false {`},
		{name: "previous values are kept without a bound", file: write, old: `n > maxPrevious {`, new: `n > 100*maxPrevious {`},
		{name: "annotations are too large", file: write, old: `text != "" && size > annotationsLimit`, new: `text != "" && size > 2*annotationsLimit`},
		{name: "a dropped value comes back", file: write, old: `if !d.again && d.newPublication(old) {`, new: `if false {`},
		{name: "the second call of a write is another write", file: write, old: `if d.again = len(incoming) > 0; !d.again {`, new: `if d.again = false; !d.again {`,
			survives: "the originals that the first call wrote decide in the same way: no history of TestHistories differs"},
		{name: "a webhook that knew less is believed", file: "internal/devices/slicemerge/pooloriginals.go", old: `case kept[name]:`, new: `case kept[name] && !has:`},
		{name: "what a slice lacks is not written", file: "internal/controllers/materialize/resyncer.go", old: `Record: v.recovered,`, new: ``},
		{name: "a driver's own word is ours", file: write, old: `return Entry{Published: v}`, new: `return entry`},
	}
}

func policies() []mutant {
	const settings = "pkg/policy/settings.go"
	return []mutant{
		{name: "the mode of a namespace does not count", file: settings, old: `out.modes[code] = modes[code]`, new: `_ = out`},
		{name: "parameters of a namespace are not checked", file: settings, old: `if err := policy.checkParameters(out.values[code]); err != nil {`, new: `if err := error(nil); err != nil && policy.Code != "" {`},
		{name: "an unknown mode is accepted", file: settings, old: `if !slices.Contains(Modes(), modes[code]) {`, new: `if false {`},
		{name: "a label selects no namespace", file: settings, old: `known != nil && override.Selector.Matches(known)`, new: `known == nil`},
		{name: "a later override does not win", file: settings, old: `	for i, override := range s.overrides {
		if apply[i] == 1 {`, new: `	for i := range s.overrides {
		i = len(s.overrides) - 1 - i
		override := s.overrides[i]
		if apply[i] == 1 {`},
		{name: "a policy in force in one namespace is off", file: settings, old: "	for _, one := range s.namespaces {\n		if one.modes[code] != Off {\n			return true\n		}\n	}\n", new: ""},
	}
}

func webhooks() []mutant {
	const bounds, timely, handler = "webhook/bounds.go", "webhook/timely.go", "webhook/handler.go"
	return []mutant{
		{name: "the timeout of the API server is not read", file: bounds, old: `timeout = min(timeout, asked)`, new: `_ = asked`},
		{name: "a request waits until its deadline", file: bounds, old: `time.Until(end)/2`, new: `time.Until(end)*2`},
		{name: "tenants share one queue", file: bounds, old: `return tenants, "namespace " + h.namespace`, new: `return tenants, "namespace"`},
		{name: "components have no reserve", file: bounds, old: "	case l.isSystem(h):\n		return components, h.user", new: "	case false:\n		return components, h.user"},
		{name: "slices are denied when there is no time", file: bounds, old: `l.isSystem(h) || h.isSlice() || `, new: `l.isSystem(h) || `},
		{name: "pods of the claim controller pass unchecked", file: bounds, old: `!pod && l.System(h.user)`, new: `(pod || !pod) && l.System(h.user)`},
		{name: "a late request is admitted", file: timely, old: `if a.mayPass {`, new: `if true {`},
		{name: "a panic ends the program", file: timely, old: `if p := recover(); p != nil {`, new: `if p := error(nil); p != nil {`},
		{name: "an answer after the deadline admits", file: timely, old: `if ctx.Err() == nil || !response.Allowed {`, new: `if true {`},
		{name: "a deadline is set after the handler", file: "webhook/intake.go", old: "	defer reading.close()\n", new: ""},
		{name: "deletions are checked", file: handler, old: "		return admission.Allowed(\"\"), verdictSkipped // deletions", new: "		return errored(nil), verdictSkipped // deletions"},
		{name: "a denial admits", file: handler, old: `if answer.Denied() {`, new: `if false {`},
		{name: "removals are additions", file: handler, old: `			operation = "remove"`, new: `			operation = "add"`},
		{name: "dry runs are not known as such", file: handler, old: `req.DryRun != nil && *req.DryRun,`, new: `false,`},
		{name: "an unknown kind is the fault of the request", file: handler, old: `errors.As(err, &unknown) {`, new: `errors.As(err, &unknown) && false {`},
	}
}

func commands() []mutant {
	const duration, tally, scope, usage, guard, reconcile, run = "internal/cli/cmdutil/duration.go", "internal/cli/lint/tally.go", "internal/devices/taints/scope.go", "pkg/usage/impact.go", "internal/guard/widens.go", "internal/controller/reconcile/loop.go", "internal/controllers/controllers.go"
	return []mutant{
		{name: "a duration overflows", file: duration, old: `err != nil || days > int64((1<<63-1)/day)-1`, new: `err != nil`},
		{name: "days have hours of another day", file: duration, old: `rest < 0 || rest >= day`, new: `rest < 0`},
		{name: "warnings fail a lint run", file: tally, old: `t.failed || report.Severity == validate.Error || t.failOn`, new: `t.failed || report.Severity != validate.Off || t.failOn`},
		{name: "lint of nothing succeeds", file: tally, old: `!t.allowEmpty {`, new: `t.allowEmpty {`},
		{name: "an unread file is no error of lint", file: tally, old: "		return errors.Join(t.unopened...)\n", new: "		return nil\n"},
		{name: "a node that no device names is a target", file: scope, old: `if len(in) == 0 {`, new: `if false {`},
		{name: "a pool of two nodes is drained with one", file: scope, old: `			out[pool] = true`, new: `			_ = out`},
		{name: "tolerated claims are hit", file: usage, old: `if tolerates(h.claim, id, taint) {`, new: `if false {`},
		{name: "finished pods are hit", file: usage, old: `			if running(pod) {`, new: `			if pod != nil {`},
		{name: "one tolerated request protects a device", file: usage, old: `&& !evaluator.Evaluate(result.Tolerations, *taint).Forever() {`, new: `&& evaluator.Evaluate(result.Tolerations, *taint) == (toleration.Period{}) {`},
		{name: "devices of old generations count", file: "internal/guard/published.go", old: `				counts[driver] -= current`, new: `				_ = current`},
		{name: "a wider selector widens nothing", file: guard, old: `return !covers(old.Spec.DeviceSelector, rule.Spec.DeviceSelector)`, new: `return false`},
		{name: "another time of a rule widens nothing", file: guard, old: `was.After(now) || is.After(now.Add(clockSkew))`, new: `is.Before(was) && was.Before(now)`},
		{name: "rules count only when they are written", file: "internal/guard/impact/windows.go", old: `return []time.Time{guard.Begins(object, now)}`, new: `return []time.Time{now}`},
		{name: "what is written counts against itself", file: "internal/guard/impact/windows.go", old: `case !near || one.object == object:`, new: `case !near:`},
		{name: "pods that leave at the time of a rule do not count", file: "internal/guard/impact/windows.go", old: `		one.admitted = one.affects()
	}
`, new: `	}
`},
		{name: "a faster drain widens nothing", file: guard, old: `rate(drain) > rate(old)`, new: `rate(drain) > rate(drain)`},
		{name: "drains that wait for a window count only now", file: "internal/guard/window.go", old: `for _, at := range begins {`, new: `for _, at := range begins[:min(len(begins), 1)] {`},
		{name: "an informer that is behind takes back what was written", file: "internal/guard/impact/begin.go", old: `if seen != nil && reconcile.Newer(`, new: `if seen == stored && reconcile.Newer(`},
		{name: "pods that another process saw do not count", file: "internal/guard/impact/beginnings.go", old: `min(missing, mostUnseen)`, new: `min(0*missing, mostUnseen)`},
		{name: "other windows of a drain widen nothing", file: guard, old: `!equality.Semantic.DeepEqual(old.Spec.Windows, drain.Spec.Windows)`, new: `drain == old`},
		{name: "a resumed drain widens nothing", file: guard, old: `!d.Spec.Paused && !d.Spec.DryRun`, new: `!d.Spec.DryRun`},
		{name: "a failed key is not tried again", file: reconcile, old: `			queue.AddRateLimited(key)`, new: `			queue.Forget(key)`},
		{name: "a controller that fails does not end the others", file: run, old: `				return fmt.Errorf("controller %s: %w", c.Name(), err)`, new: `				_ = fmt.Errorf("controller %s: %w", c.Name(), err)`},
	}
}

func requests() []mutant {
	const file = "internal/drain/request.go"
	return []mutant{
		{name: "pods that leave by a request are not counted", file: file, old: "d.Status.Counts.Evicted++", new: ""},
		{name: "a request that is processed falls back with the others", file: file, old: `(all != v1alpha1.FallbackNotAnswered || !processed)`, new: `(processed || !processed)`},
		{name: "a drain that fell back makes requests again", file: file, old: `was.Status == metav1.ConditionFalse`, new: `was.Status == "none"`},
		{name: "a refused request is waited for", file: file, old: `text, refused := in.Requests.Refused[r.UID]; refused`, new: `text, refused := in.Requests.Refused[r.UID]; refused && false`},
		{name: "a failed request is waited for", file: file, old: `if stored.Failed != "" {`, new: `if stored.Failed == "none" {`},
		{name: "a request with a status has no time to move", file: file, old: `most = moveTime`, new: `most = answerTime`},
		{name: "a moving status does not count", file: file, old: `since = stored.Moved`, new: `_ = stored.Moved`},
		{name: "pods of a PodGroup are asked", file: file, old: ` && pod.Spec.SchedulingGroup == nil &&`, new: ` &&`},
		{name: "requests have no bound", file: file, old: `return open >= maxRequests`, new: `return false`},
		{name: "requests of an ended drain stay", file: file, old: `		if !wanted[uid] {
			d.Withdraw`, new: `		if !wanted[uid] && false {
			d.Withdraw`},
	}
}

func nodes() []mutant {
	const agent, holdings, attribute = "internal/nodeagent/agent.go", "internal/nodeagent/read.go", "pkg/podresources/attribute.go"
	return []mutant{
		{name: "a toleration on a node never ends", file: agent, old: `int64(now.Sub(added)/time.Second) < *period.Seconds`, new: `int64(now.Sub(added)/time.Second) >= 0`},
		{name: "holders of deleted pods stay after a failed read", file: agent, old: `			return p.Name == listed.GetName() && p.Namespace == listed.GetNamespace()`, new: `			return true`},
		{name: "admin access is forgotten", file: agent, old: `held[key] = h.Source == podresources.FromClaim && h.AdminAccess || a.admin[key] || held[key]`, new: `held[key] = h.Source == podresources.FromClaim && h.AdminAccess || held[key]`},
		{name: "what is remembered of admin access is not judged by", file: "internal/nodeagent/read.go", old: `return a.admin[adminKey(h)]`, new: `return false`},
		{name: "a claim that was held with admin access is held twice", file: "internal/nodeagent/finding.go", old: ` && (in.WasAdmin == nil || !in.WasAdmin(h))`, new: ``},
		{name: "a claim is reserved for every pod", file: "pkg/podresources/devices.go", old: `return c.UID == pod || c.Resource != "pods"`, new: `return true`},
		{name: "each device is a claim of its own", file: "pkg/podresources/server.go", old: `n == 0 || resources[n-1].GetClaimName() != h.Claim`, new: `n >= 0`},
		{name: "a finding is reported at once", file: agent, old: `now.Sub(since[f]) >= delays[f.Kind]`, new: `true`},
		{name: "taints are those of the first holding", file: holdings, old: `&report.Holdings[t.of]`, new: `&report.Holdings[0]`},
		{name: "a taint is listed twice", file: holdings, old: `if !slices.Contains(held.Taints, taint) {`, new: `if !slices.Contains(held.Taints, taint) || true {`},
		{name: "devices of finished init containers vanish", file: attribute, old: "	a.addUnused(pod, names, a.holdings[before:])\n", new: "	_, _ = before, names\n"},
		{name: "an extended resource has no name", file: attribute, old: `		if mapping.RequestName == resourceclaim.BaseRequestRef(request) {`, new: `		if mapping.RequestName == "" {`},
		{name: "a container has the devices of all requests", file: attribute, old: `		if request != "" && d.holding.Request != "" && resourceclaim`, new: `		if request == "none" && d.holding.Request != "" && resourceclaim`},
		{name: "finished pods hold devices", file: attribute, old: `return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed`, new: `return false`},
		{name: "a finished init container holds devices", file: attribute, old: `status.State.Terminated != nil && status.State.Terminated.ExitCode == 0`, new: `false`},
	}
}

func versions() []mutant {
	const gates, faults, watcher = "internal/kubernetes/gates/gates.go", "internal/kubernetes/faults/faults.go", "internal/cluster/clusterread/watcher.go"
	return []mutant{
		{name: "a fixed version has the fault", file: faults, old: ` && (r.Fixed == "" || is.LessThan(version.MustParseGeneric(r.Fixed)))`, new: ``},
		{name: "the version of a vendor counts as one of Kubernetes", file: faults, old: `!strings.ContainsAny(of, "-+")`, new: `true`},
		{name: "one gate of two is enough", file: gates, old: `return !on && (known || !defaults.Enabled(apiserver.Gate(gate)))`, new: `return !on && known && !defaults.Enabled(apiserver.Gate(gate))`},
		{name: "a gate that is off is on", file: gates, old: `reported.Gates[name] = value(metric) == 1`, new: `reported.Gates[name] = true`},
		{name: "a deleted object is shown", file: watcher, old: `event.Type != watch.Deleted`, new: `true`},
		{name: "an expired watch ends", file: watcher, old: `func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }`, new: `func expired(error) bool { return false }`},
	}
}

func schedulers() []mutant {
	const taken, queue, view = "scheduler/plugin/patches.go", "scheduler/plugin/requeue.go", "scheduler/view/view.go"
	return []mutant{
		{name: "a changed class is not followed by the scheduler", file: taken, old: `handlers(func(object any) { p.noteClass(nameOf(object)) })`, new: `handlers(func(any) {})`},
		{name: "no patch names the class", file: taken, old: `*filter.DeviceClassName == class {`, new: `*filter.DeviceClassName == "" {`},
		{name: "the scheduler compiles a patch without its class", file: taken, old: `class, _ = p.classes.Get(*filter.DeviceClassName)`, new: `_, _ = p.classes.Get(*filter.DeviceClassName)`},
		{name: "a patch with another class is the same", file: view, old: ` && sameClass(v.classes[object.Name], class) {`, new: ` {`},
		{name: "pods that wait are not tried again", file: queue, old: `profile.handle.Activate(profile.logger, waiting)`, new: `_ = waiting`},
		{name: "pods that are bound wait for devices", file: queue, old: `pod.Spec.NodeName == "" && `, new: ``},
		{name: "pods wait for no patches", file: "scheduler/plugin/plugin.go", old: `!p.patches.isSettled()`, new: `false`},
	}
}
