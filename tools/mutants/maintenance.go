package main

func reactions() []mutant {
	const decide, brake, begin = "internal/reaction/decide.go", "internal/reaction/brake.go", "internal/reaction/begin.go"
	const prove, pin, restart = "internal/reaction/prove.go", "internal/reaction/pin.go", "internal/reaction/restart.go"
	return []mutant{
		{name: "a flapping device is uncordoned", file: decide, old: `if w.flaps(d) {`, new: `if false {`},
		{name: "a device is uncordoned when it is seen healthy", file: decide, old: `v1alpha1.UncordonWhenHealthy || !w.Published(d.DeviceName) || !w.Lasts(w.Now, d.HealthySince, after(w.Reaction))`, new: `v1alpha1.UncordonWhenHealthy || d.HealthySince == nil`},
		{name: "a device that waits for a person is uncordoned", file: decide, old: `w.Reaction.Spec.End.Uncordon != v1alpha1.UncordonWhenHealthy || `, new: ``},
		{name: "a device is uncordoned without its proof", file: decide, old: `if !w.proven(d) {`, new: `if false {`},
		{name: "a device is drained at its first sign", file: decide, old: `case d.SickSince != nil && w.Lasts(w.Now, d.SickSince, standsFor(w.Reaction)):`, new: `case d.SickSince != nil:`},
		{name: "a device that no slice has is healthy", file: decide, old: `case w.Published(d.DeviceName):`, new: `case true:`},
		{name: "a drain that a person deleted comes back", file: decide, old: `case d.DrainUID != "":`, new: `case false:`},
		{name: "a failure after the acknowledgement is ignored", file: decide, old: `v1alpha1.ReactionAcknowledged && d.Cause == "" {`, new: `v1alpha1.ReactionAcknowledged && false {`},
		{name: "a cause that was acknowledged is drained when it was away", file: decide, old: `v1alpha1.ReactionAcknowledged && d.Cause == "" {`, new: `v1alpha1.ReactionAcknowledged && d.HealthySince != nil {`},
		{name: "a drain that has failed has drained", file: decide, old: `case failed != nil && failed.Status == metav1.ConditionTrue:`, new: `case failed != nil && failed.Status == metav1.ConditionUnknown:`},
		{name: "the brake allows one more", file: brake, old: `out[s] > most && devices > 0`, new: `out[s] > most+1 && devices > 0`},
		{name: "a drain that a person resumed is paused again", file: brake, old: ` || drain.Annotations[v1alpha1.PausedByAnnotation] != "" {`, new: ` {`},
		{name: "drains of other reactions do not count", file: brake, old: `{}: w.OtherReactions`, new: `{}: 0`},
		{name: "a reaction does not ask the guard", file: begin, old: `if over := w.check(d.DeviceName); over != "" {`, new: `if over := ""; over != "" {`},
		{name: "the drain before does not count for the guard", file: begin, old: `	w.began = append(`, new: `	_ = append(`},
		{name: "a device of another drain gets a second one", file: begin, old: `case drain != "":`, new: `case false:`},
		{name: "a proof counts after the device was sick again", file: prove, old: `p.State == v1alpha1.ProofPassed) && w.stale(d)`, new: `false) && w.stale(d)`},
		{name: "a proof counts in which the device was sick again", file: prove, old: `(p.State == v1alpha1.ProofRunning || p.State == v1alpha1.ProofPassed) &&`, new: `p.State == v1alpha1.ProofPassed &&`},
		{name: "a proof of a flapping device begins", file: prove, old: `v1alpha1.ProofRunning, w.flaps(d), `, new: `v1alpha1.ProofRunning, `},
		{name: "a Job that was deleted is created again", file: prove, old: `case job == nil && p.JobUID != "":`, new: `case false:`},
		{name: "an attribute that two devices have names one", file: pin, old: `			delete(mine, name)`, new: `			_ = name`},
		{name: "a value that schedulers do not see names a device", file: pin, old: `return stored[name] != literal`, new: `return stored[name] == "-"`},
		{name: "the driver of devices in use restarts", file: restart, old: `pod.DeletionTimestamp == nil && used == "" {`, new: `pod.DeletionTimestamp == nil {`},
		{name: "two drivers restart together", file: restart, old: `case other != "":`, new: `case false:`},
	}
}

func rolls() []mutant {
	const follow, choose, decide = "internal/roll/follow.go", "internal/roll/choose.go", "internal/roll/decide.go"
	const nodes, widens = "internal/roll/nodes.go", "internal/guard/widens.go"
	return []mutant{
		{name: "work begins while claims hold devices", file: follow, old: `v1alpha1.DrainDrained) && used(node) == "":`, new: `v1alpha1.DrainDrained):`},
		{name: "a driver that ends is deleted again", file: follow, old: `if !pod.Deleting {`, new: `if true {`},
		{name: "the pods of an operator are deleted", file: follow, old: `case w.Roll.Spec.DriverPods.Replace == v1alpha1.ReplaceWait:`, new: `case false:`},
		{name: "fewer devices than before are accepted", file: follow, old: `case fewer > 0 && !n.AcceptDevices:`, new: `case false:`},
		{name: "the slices of the previous driver count", file: follow, old: `case !changed && !w.Lasts(w.Now, n.ReadySince, unchangedFor(w.Roll)):`, new: `case !changed && false:`},
		{name: "a node that strands its pods is first", file: "internal/roll/choose.go", old: `cmp.Compare(stranded[a.Name], stranded[b.Name]))`, new: `cmp.Compare(stranded[b.Name], stranded[a.Name]))`},
		{name: "a node is done without its proof", file: follow, old: `case w.Roll.Spec.Proof != nil:`, new: `case false:`},
		{name: "the proof of the last attempt fails the next", file: follow, old: `case slices.Contains(n.Replaced, proof.UID):`, new: `case slices.Contains(n.Replaced, "-"+proof.UID):`},
		{name: "a node that a person uncordoned is cordoned again", file: follow, old: `case n.Cordoned:`, new: `case false:`},
		{name: "the cordon of a person is taken back", file: follow, old: `	if node.CordonedBy == w.Roll.Name {
		w.Uncordon`, new: `	if node.Unschedulable {
		w.Uncordon`},
		{name: "a roll goes on after a failed node", file: follow, old: `w.hold(v1alpha1.HeldNodeFailed, `, new: `_ = fmt.Sprint(v1alpha1.HeldNodeFailed, `},
		{name: "the drain of a failed node evicts on", file: follow, old: `	if n.State == v1alpha1.RollFailed {
		w.stopDrain(n)`, new: `	if n.State == v1alpha1.RollFailed {`},
		{name: "the time of a paused drain counts", file: follow, old: `case w.rests():`, new: `case false && w.rests():`},
		{name: "failed nodes leave room for others", file: decide, old: `return state == v1alpha1.RollFailed || `, new: `return `},
		{name: "a canary goes on at once", file: choose, old: `all == v1alpha1.RollAtATimeMax || w.canary()`, new: `all == v1alpha1.RollAtATimeMax`},
		{name: "a roll does not ask the guard", file: choose, old: `if over := w.check(n, node); over != "" {`, new: `if over := ""; over != "" {`},
		{name: "the node before does not count for the guard", file: choose, old: `	w.began = append(`, new: `	_ = append(`},
		{name: "a roll begins outside of its windows", file: choose, old: `if closed := w.closed(); closed != "" {`, new: `if closed := w.closed(); closed == "never" {`},
		{name: "one more node is in work in each group", file: choose, old: `if most[node.Group] >= int(`, new: `if most[node.Group] > int(`},
		{name: "the node with the most pods is first", file: choose, old: `cmp.Compare(len(w.Nodes[a.Name].Hit.Pods), len(w.Nodes[b.Name].Hit.Pods))`, new: `cmp.Compare(len(w.Nodes[b.Name].Hit.Pods), len(w.Nodes[a.Name].Hit.Pods))`},
		{name: "a node that is not ready begins", file: choose, old: "	case !node.Ready:\n		return", new: "	case false:\n		return"},
		{name: "slices of an old generation count", file: nodes, old: `if node == nil || obsolete {`, new: `if node == nil || obsolete && false {`},
		{name: "a roll with more nodes at a time passes the guard", file: widens, old: `ptr.Deref(roll.Spec.AtATime, 1) > ptr.Deref(old.Spec.AtATime, 1)`, new: `false`},
		{name: "a roll that is resumed passes the guard", file: widens, old: `return rolls(roll) && (!rolls(old) || `, new: `return rolls(roll) && (old == nil || `},
	}
}
