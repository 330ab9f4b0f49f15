package why

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

func TestRank(t *testing.T) {
	suffices := func(kind Kind) Cause { return Cause{Kind: kind, Sufficient: true} }
	for name, tt := range map[string]struct {
		causes []Cause
		want   []Kind
	}{
		"none":                                  {nil, nil},
		"a claim that does not exist":           {[]Cause{suffices(TaintNotTolerated), {Kind: QuotaExceeded}}, []Kind{QuotaExceeded, TaintNotTolerated}},
		"no scheduler":                          {[]Cause{suffices(CountTooLarge), {Kind: SchedulerMissing}}, []Kind{SchedulerMissing, CountTooLarge}},
		"an error before what suffices":         {[]Cause{suffices(DevicesTaken), {Kind: SelectorError}}, []Kind{SelectorError, DevicesTaken}},
		"what suffices before what does not":    {[]Cause{{Kind: TaintNotTolerated}, suffices(SelectorFalse)}, []Kind{SelectorFalse, TaintNotTolerated}},
		"a taint before another claim":          {[]Cause{suffices(DevicesTaken), suffices(TaintNotTolerated)}, []Kind{TaintNotTolerated, DevicesTaken}},
		"a node before the claims on it":        {[]Cause{suffices(DevicesTaken), suffices(WrongNode)}, []Kind{WrongNode, DevicesTaken}},
		"a smaller count last but a selector":   {[]Cause{suffices(SelectorFalse), suffices(CountTooLarge), suffices(DevicesTaken)}, []Kind{DevicesTaken, CountTooLarge, SelectorFalse}},
		"devices before the size of nodes":      {[]Cause{{Kind: NodeResources}, {Kind: DevicesTaken}}, []Kind{DevicesTaken, NodeResources}},
		"each once":                             {[]Cause{{Kind: NoDevices}, {Kind: NoDevices}}, []Kind{NoDevices}},
		"what a newer version knows comes last": {[]Cause{{Kind: "Other"}, {Kind: Unknown}}, []Kind{Unknown, "Other"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []Kind
			for _, c := range Rank(tt.causes) {
				got = append(got, c.Kind)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	if kinds()[first-1] != SelectorError {
		t.Errorf("the last kind that scheduling does not get past is %s", kinds()[first-1])
	}
}

// FuzzRank: the order does not depend on that of the causes, none is lost or invented, and
// no cause that waits for another comes before it.
func FuzzRank(f *testing.F) {
	f.Add([]byte{3, 1, 0, 40, 7}, uint64(1))
	f.Add([]byte{255, 0, 128, 64, 64}, uint64(7))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		all := kinds()
		var causes []Cause
		for i, b := range data {
			causes = append(causes, Cause{Kind: all[int(b)%len(all)], Sufficient: b&1 == 1, Devices: int(b >> 4), Message: fmt.Sprint(i % 3)})
		}
		ranked := Rank(causes)
		shuffled := slices.Clone(causes)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again := Rank(shuffled); !slices.Equal(ranked, again) {
			t.Fatalf("another order: %v, %v", ranked, again)
		}
		if again := Rank(ranked); !slices.Equal(ranked, again) {
			t.Fatalf("ranked twice: %v, %v", ranked, again)
		}
		for _, c := range causes {
			if !slices.Contains(ranked, c) {
				t.Fatalf("lost %v", c)
			}
		}
		blocks := func(c Cause) bool { return slices.Index(all, c.Kind) < first }
		for i := 1; i < len(ranked); i++ {
			before, after := ranked[i-1], ranked[i]
			if !slices.Contains(causes, after) || before == after {
				t.Fatalf("invented %v", after)
			}
			if blocks(after) && !blocks(before) || !blocks(after) && !blocks(before) && after.Sufficient && !before.Sufficient {
				t.Fatalf("%v comes before %v", before, after)
			}
		}
	})
}

// FuzzQuote: a shell reads a quoted word as it was.
func FuzzQuote(f *testing.F) {
	for _, seed := range []string{"", "a", "it's", `'\''`, "$(reboot)", "a b", "`x`", "\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, rest := shellWord(word(text)); got != text || rest != "" {
			t.Errorf("%q is read as %q, and then %q", word(text), got, rest)
		}
	})
}

// shellWord reads one word as a shell does, of the quotes that quote uses.
func shellWord(text string) (word, rest string) {
	for text != "" {
		switch text[0] {
		case '\'':
			inner, after, closed := strings.Cut(text[1:], "'")
			if !closed {
				return word, text
			}
			word, text = word+inner, after
		case '\\':
			if len(text) < 2 {
				return word, text
			}
			word, text = word+text[1:2], text[2:]
		case ' ', '\n', '\t', '$', '`', ';', '&', '|', '<', '>', '(', ')', '"', '*', '?', '[', '#', '~', '!', '{', '}':
			return word, text
		default:
			word, text = word+text[:1], text[1:]
		}
	}
	return word, ""
}

// TestTerms splits expressions, and finds what they ask for.
func TestTerms(t *testing.T) {
	const model = `device.attributes["gpu.example.com"].model`
	for expression, want := range map[string]string{
		model + ` == "A100"`: "gpu.example.com/model A100",
		`"A100" == ` + model: "gpu.example.com/model A100",
		`device.attributes["gpu.example.com"]["model"] == "A100"`:                           "gpu.example.com/model A100",
		model + ` == "A100" && device.driver == "x"`:                                        "gpu.example.com/model A100; / ",
		`device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0`:        "gpu.example.com/memory ",
		`(` + model + ` == "A" || ` + model + ` == "B") && device.allowMultipleAllocations`: "gpu.example.com/model ; / ",
		`device.attributes["gpu.example.com"].?model.orValue("") == "A100"`:                 "/ ",
		`["A", "B"].exists(m, m == ` + model + `)`:                                          "gpu.example.com/model ",
		`device.driver ==`: "",
	} {
		var got []string
		for _, part := range terms(expression) {
			got = append(got, part.domain+"/"+part.name+" "+part.literal)
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: got %q, want %q", expression, strings.Join(got, "; "), want)
		}
	}
	parts := terms(`(a || b) && c`)
	if got := with(parts, 1, "d"); got != "(a || b) && d" {
		t.Errorf("replaced: %s", got)
	}
	if got := with(terms("a"), 0, ""); got != "true" {
		t.Errorf("left out: %s", got)
	}
}

// waits makes a pod with one reference to a claim or template.
func waits(reference corev1.PodResourceClaim) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train-0", UID: "1"}}
	reference.Name = "gpu"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{reference}
	return pod
}

// TestNotMade: a claim that is not created has the reason of kube-controller-manager.
func TestNotMade(t *testing.T) {
	event := func(message string) *corev1.Event {
		return &corev1.Event{Reason: creationFailed, Message: "PodResourceClaim gpu: " + message, InvolvedObject: corev1.ObjectReference{Namespace: "team-a", Name: "train-0", UID: "1"}}
	}
	const gone = `resource claim template "train": not found`
	templated := waits(corev1.PodResourceClaim{ResourceClaimTemplateName: new("train")})
	owned := templated.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", Controller: new(true)}}
	for name, tt := range map[string]struct {
		pod                      *corev1.Pod
		events                   []*corev1.Event
		templates                []string
		kind                     Kind
		message, remedy, command string
	}{
		"nothing is known": {pod: templated, kind: CreationFailed, message: "has not created the claim", remedy: "check that kube-controller-manager runs"},
		"another error": {pod: templated, events: []*corev1.Event{event("create ResourceClaim : boom")}, kind: CreationFailed,
			message: "kube-controller-manager cannot create the claim: create ResourceClaim : boom"},
		"no template": {pod: templated, events: []*corev1.Event{event(gone)}, kind: TemplateMissing,
			message: "ResourceClaimTemplate train does not exist", remedy: "create ResourceClaimTemplate train in namespace team-a"},
		"another template": {pod: templated, events: []*corev1.Event{event(gone)}, templates: []string{"trian"}, kind: TemplateMissing,
			message: `did you mean "trian"?`, remedy: "use trian", command: "kubectl patch pod train-0 -n team-a"},
		"in a Job": {pod: owned, events: []*corev1.Event{event(gone)}, templates: []string{"trian"}, kind: TemplateMissing,
			message: `did you mean "trian"?`, remedy: "use trian, in the pod template of Job train",
			command: `kubectl patch job train -n team-a -p '{"spec":{"template":{"spec":{"resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"trian"}]}}}}' --dry-run=client -o yaml | kubectl replace --force -f -`},
		"quota": {pod: templated, events: []*corev1.Event{event(`create ResourceClaim : resourceclaims is forbidden: exceeded quota: claims, requested: a/b=1,c=2, used: a/b=3,c=4, limited: a/b=3,c=5`)},
			kind: QuotaExceeded, message: "ResourceQuota claims refuses the claim", command: `kubectl patch resourcequota claims -n team-a --type=merge -p '{"spec":{"hard":{"a/b":"4","c":"6"}}}'`},
		"no claim": {pod: waits(corev1.PodResourceClaim{ResourceClaimName: new("train")}), kind: ClaimMissing, message: "ResourceClaim train does not exist", remedy: "create ResourceClaim train in namespace team-a"},
	} {
		t.Run(name, func(t *testing.T) {
			w := Cluster{View: tracker.Merge(class(), slice("n1", gpus(1)...)), Surroundings: Surroundings{Events: tt.events, NoTemplates: len(tt.templates) == 0}}
			for _, name := range tt.templates {
				w.Templates = append(w.Templates, &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}})
			}
			a, err := w.ExplainPod(t.Context(), tt.pod)
			if err != nil {
				t.Fatal(err)
			}
			if a.Satisfied() || a.Claims[0].Verdict != NotMade || len(a.Events) != len(tt.events) {
				t.Errorf("not NotMade, or without the events: %+v", a)
			}
			if c := a.Cause; c == nil || c.Kind != tt.kind || !strings.Contains(c.Message, tt.message) || tt.remedy != "" && c.Remedy != tt.remedy || !strings.HasPrefix(c.Command, tt.command) || c.Command != "" && tt.command == "" {
				t.Errorf("got %+v", c)
			}
		})
	}
}

// TestNoSingleChange: where no single change suffices, the cause says what is missing, and
// nothing is promised.
func TestNoSingleChange(t *testing.T) {
	c := claim("c", func(c *resourceapi.ResourceClaim) { request(c).Count = 2 })
	hot := gpus(2)
	hot[0].Taints = []resourceapi.DeviceTaint{{Key: "example.com/hot", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	other := holding("other", "n1", "gpu-1")
	r, err := Cluster{View: tracker.Merge(class(), slice("n1", hot...)), Claims: []*resourceapi.ResourceClaim{c, other}}.Explain(t.Context(), c, nil)
	if err != nil || len(r.Causes) < 2 || r.Causes[0].Sufficient || r.Causes[0].Kind != TaintNotTolerated || r.Causes[1].Kind != DevicesTaken {
		t.Errorf("%v %+v", err, r.Causes)
	}
}
