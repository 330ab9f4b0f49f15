package capacity

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dra-steward/dra-steward/internal/cost/selector"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
)

// A pool is the newest generation of one.
type pool struct {
	placement.Pool
	// counters are what devices of the pool can consume together; left is without those of
	// held devices. short is true if devices hold more than there is: the scheduler allocates
	// no device of the pool then that consumes counters.
	counters, left map[counter]resource.Quantity
	short          bool
	devices        []*device
	// groups are the devices that share counters, directly or through others.
	groups [][]*device
}

// pools finds the newest generation of each pool.
func (s *survey) pools() map[placement.PoolID]*pool {
	pools, all := map[placement.PoolID]*pool{}, s.View.List(nil)
	for id, found := range placement.Pools(all, s.features) {
		pools[id] = &pool{Pool: found, counters: map[counter]resource.Quantity{}}
	}
	for _, slice := range all {
		p := pools[placement.PoolOf(slice)]
		if slice.Spec.Pool.Generation != p.Generation {
			continue
		}
		for _, set := range slice.Spec.SharedCounters {
			for name, c := range set.Counters {
				p.counters[counter{set.Name, name}] = c.Value
			}
		}
	}
	return pools
}

// reason is why no device of the pool can be allocated.
func (p *pool) reason(incomplete bool) Reason {
	switch {
	case p.Slices != p.Total && !incomplete:
		return PoolIncomplete
	case p.Invalid != "":
		return PoolInvalid
	}
	return ""
}

// consume takes the counters of held devices, and finds the groups of the others.
func (p *pool) consume() {
	if len(p.counters) == 0 {
		return
	}
	p.left = make(map[counter]resource.Quantity, len(p.counters))
	for of, value := range p.counters {
		p.left[of] = value.DeepCopy()
	}
	sets := unions{}
	for _, d := range p.devices {
		consumed := d.seen.ConsumesCounters
		for i := range consumed {
			sets.join(consumed[0].CounterSet, consumed[i].CounterSet)
		}
		if d.inUse {
			p.take(consumed)
		}
	}
	for _, value := range p.left {
		p.short = p.short || value.Sign() < 0
	}
	at := map[string]int{}
	for _, d := range p.devices {
		if len(d.seen.ConsumesCounters) == 0 {
			continue
		}
		root := sets.root(d.seen.ConsumesCounters[0].CounterSet)
		group, known := at[root]
		if !known {
			group = len(p.groups)
			at[root] = group
			p.groups = append(p.groups, nil)
		}
		p.groups[group] = append(p.groups[group], d)
	}
}

func (p *pool) take(consumed []resourceapi.DeviceCounterConsumption) {
	for _, c := range consumed {
		for name, value := range c.Counters {
			of := counter{c.CounterSet, name}
			if left, ok := p.left[of]; ok {
				left.Sub(value.Value)
				p.left[of] = left
			}
		}
	}
}

// unions are counter sets that devices connect.
type unions map[string]string

func (u unions) root(set string) string {
	for u[set] != "" && u[set] != set {
		set = u[set]
	}
	return set
}

func (u unions) join(a, b string) {
	if a, b = u.root(a), u.root(b); a != b {
		u[b] = a
	}
}

// A place is where a device is: one node, or several.
type place struct {
	// node is its name, empty for several.
	node string
	// all is true if it is on every node.
	all    bool
	reason Reason
}

// places finds the nodes of devices. Selectors are matched once each.
type places struct {
	nodes map[string]Reason
	all   []*corev1.Node
	// known is false if nodes could not be read.
	known    bool
	anywhere Reason
	selected map[string]Reason
}

func newPlaces(nodes []*corev1.Node) *places {
	p := &places{nodes: make(map[string]Reason, len(nodes)), all: nodes, known: nodes != nil, selected: map[string]Reason{}}
	if p.known {
		p.anywhere = NodeMissing
	}
	for _, node := range nodes {
		reason := reasonOf(node)
		p.nodes[node.Name] = reason
		p.anywhere = better(p.anywhere, reason)
	}
	return p
}

// better is the reason of the better of two nodes.
func better(a, b Reason) Reason {
	rank := func(r Reason) int {
		return strings.Index(" "+string(NodeUnschedulable)+string(NodeNotReady)+string(NodeMissing), string(r))
	}
	if a == "" || b == "" {
		return ""
	}
	if rank(a) < rank(b) {
		return a
	}
	return b
}

// reasonOf is why pods cannot start on a node.
func reasonOf(node *corev1.Node) Reason {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return NodeNotReady
		}
	}
	if node.Spec.Unschedulable {
		return NodeUnschedulable
	}
	return ""
}

// of is the place of a device.
func (p *places) of(slice *resourceapi.ResourceSlice, d *resourceapi.Device) place {
	name, all, selector := slice.Spec.NodeName, slice.Spec.AllNodes, slice.Spec.NodeSelector
	if slice.Spec.PerDeviceNodeSelection != nil && *slice.Spec.PerDeviceNodeSelection {
		name, all, selector = d.NodeName, d.AllNodes, d.NodeSelector
	}
	switch {
	case name != nil && *name != "":
		found, exists := p.nodes[*name]
		if p.known && !exists {
			found = NodeMissing
		}
		return place{node: *name, reason: found}
	case all != nil && *all:
		return place{all: true, reason: p.anywhere}
	case selector == nil:
		return place{reason: NodeMissing}
	case !p.known:
		return place{}
	}
	return place{reason: p.selects(selector)}
}

// selects is the reason of the best node that a selector selects.
func (p *places) selects(selector *corev1.NodeSelector) Reason {
	key := selector.String()
	found, known := p.selected[key]
	if known {
		return found
	}
	found = NodeMissing
	for _, node := range p.all {
		if placement.Matches(node, nil, nil, selector) {
			found = better(found, p.nodes[node.Name])
		}
	}
	p.selected[key] = found
	return found
}

// A driverExpression is a CEL expression and the driver of a device.
type driverExpression struct{ expression, driver string }

// driverOnly reports whether the value of an expression depends on the driver of a device
// only, as that of most classes. Such an expression is evaluated once for each driver.
func driverOnly(expression string) bool {
	return !strings.Contains(strings.ReplaceAll(expression, "device.driver", ""), "device")
}

// inClass reports whether a class selects a device. The error is that of an expression: the
// scheduler stops at it.
func (s *survey) inClass(ctx context.Context, class *resourceapi.DeviceClass, driver string, d *resourceapi.Device) (bool, error) {
	for i, one := range class.Spec.Selectors {
		if one.CEL == nil {
			return false, fmt.Errorf("DeviceClass %s: selector %d has no expression", class.Name, i)
		}
		matches, err := s.matches(ctx, one.CEL.Expression, driver, d)
		switch {
		case errors.Is(err, selector.ErrTooExpensive):
			return false, fmt.Errorf("DeviceClass %s: selector %d cannot be evaluated on device %s: %w", class.Name, i, d.Name, err)
		case err != nil:
			return false, fmt.Errorf("DeviceClass %s: selector %d fails on device %s, and kube-scheduler stops there: %w", class.Name, i, d.Name, err)
		}
		if !matches {
			return false, nil
		}
	}
	return true, nil
}

// matches evaluates an expression.
func (s *survey) matches(ctx context.Context, expression, driver string, d *resourceapi.Device) (bool, error) {
	key := driverExpression{expression, driver}
	if matches, known := s.ofDriver[key]; known {
		return matches, nil
	}
	compiled := s.cache.GetOrCompile(expression)
	switch {
	case selector.TooExpensive(compiled):
		return false, fmt.Errorf("%w: %s", selector.ErrTooExpensive, compiled.Error.Detail)
	case compiled.Error != nil:
		return false, fmt.Errorf("it does not compile: %s", compiled.Error.Detail)
	}
	matches, _, err := compiled.DeviceMatches(ctx, placement.DeviceOf(driver, d))
	if err == nil && driverOnly(expression) {
		s.ofDriver[key] = matches
	}
	return matches, err
}
