package measure

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/testsupport/testaudit"
	"github.com/dra-steward/dra-steward/internal/testsupport/testmemory"
)

// reader is the user as whom commands read; of its requests there is an audit log.
const reader = "scale-reader"

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: [` + reader + `]
  - level: None
`

// listsVariable has the kubeconfig for the process that only lists; its arguments are paths.
const listsVariable = "DRA_STEWARD_SCALE_LISTS"

// bareLists reads lists as typed objects, each in one request, in protobuf where a type has it,
// and prints how long that took.
func bareLists(kubeconfig string, paths []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	for kind, object := range map[string]runtime.Object{v1alpha1.ResourceSlicePatchKind: &v1alpha1.ResourceSlicePatch{}, "ResourceSlicePatchList": &v1alpha1.ResourceSlicePatchList{}} {
		scheme.AddKnownTypeWithName(v1alpha1.GroupVersion().WithKind(kind), object)
	}
	config.QPS, config.GroupVersion = -1, &schema.GroupVersion{}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return err
	}
	begin := time.Now()
	for _, path := range paths {
		if _, err := client.Get().AbsPath(path).Do(context.Background()).Get(); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	_, err = fmt.Println(time.Since(begin).Seconds())
	return err
}

// A ran is a program that has ended.
type ran struct {
	wall time.Duration
	// peak is the most that it held in RAM, in MiB, and computed its CPU time.
	peak     float64
	computed time.Duration
	out      []byte
}

func run(t *testing.T, good func(code int) bool, command *exec.Cmd) ran {
	t.Helper()
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	begin := time.Now()
	most, err := testmemory.Run(command)
	wall := time.Since(begin)
	if command.ProcessState == nil || !good(command.ProcessState.ExitCode()) {
		t.Fatalf("%v: %v\n%s", command.Args, err, &errs)
	}
	return ran{wall: wall, peak: float64(most) / (1 << 20), computed: command.ProcessState.UserTime() + command.ProcessState.SystemTime(), out: out.Bytes()}
}

// lists starts a process that only lists, and returns how long the lists took.
func lists(t *testing.T, kubeconfig string, paths []string) (time.Duration, ran) {
	t.Helper()
	command := exec.Command(os.Args[0], paths...)
	command.Env = append(os.Environ(), listsVariable+"="+kubeconfig)
	r := run(t, func(code int) bool { return code == 0 }, command)
	var seconds float64
	if _, err := fmt.Sscan(string(r.out), &seconds); err != nil {
		t.Fatalf("%q: %v", r.out, err)
	}
	return time.Duration(seconds * float64(time.Second)), r
}

// An audited is what a command asked the API server for.
type audited struct {
	// paths are those of the lists, in order, begun how often each was begun.
	paths    []string
	begun    map[string]int
	requests int
}

// twice are the lists that were begun more than once.
func (a audited) twice() (paths []string) {
	for _, path := range a.paths {
		if a.begun[path] > 1 {
			paths = append(paths, fmt.Sprintf("%s (%d times)", path, a.begun[path]))
		}
	}
	return paths
}

// since reads the audit log from an offset, and returns the next one. A list of one object, which
// only asks whether there may be one, is a request and no list.
func since(t *testing.T, log string, offset int64) (a audited, next int64) {
	t.Helper()
	a.begun = map[string]int{}
	next = offset
	for end, event := range testaudit.Entries[struct{ RequestURI, Verb string }](t, log, offset) {
		next = end
		a.requests++
		at, err := url.Parse(event.RequestURI)
		must(t, err)
		query := at.Query()
		if event.Verb != "list" || query.Get("limit") == "1" || query.Get("continue") != "" {
			continue
		}
		path := at.Path
		if selector := strings.TrimSpace(query.Get("labelSelector") + query.Get("fieldSelector")); selector != "" {
			continue // a part of a list
		}
		if a.begun[path]++; a.begun[path] == 1 {
			a.paths = append(a.paths, path)
		}
	}
	return a, next
}
