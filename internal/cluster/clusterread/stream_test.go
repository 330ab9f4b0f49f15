package clusterread

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// nodeList is a list in protobuf.
func nodeList(t *testing.T, next string, names ...string) []byte {
	t.Helper()
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: next}}
	for _, name := range names {
		list.Items = append(list.Items, *node(name, "1"))
	}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	var out bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(list, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// nodesOf is a reading of an API server.
func nodesOf(t *testing.T, handler http.HandlerFunc) *reading {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{AcceptContentTypes: runtime.ContentTypeProtobuf}})
	if err != nil {
		t.Fatal(err)
	}
	return &reading{client: client}
}

// TestPages: the objects of all pages are read, in protobuf or JSON; from the begin if the token of a page has expired; and
// none if an answer is incomplete or something else.
func TestPages(t *testing.T) {
	first, second := nodeList(t, "more", "a", "b"), nodeList(t, "", "c")
	status := func(code int, reason string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the server refuses","reason":%q,"code":%d}`, reason, code)
	}
	for name, tt := range map[string]struct {
		second    []byte
		code      int
		want, err string
	}{
		"protobuf":     {second, 200, "a b c", ""},
		"JSON":         {[]byte(`{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"c","managedFields":[{}]}}]}`), 200, "a b c", ""},
		"expired":      {[]byte(status(410, "Expired")), 410, "a c", ""},
		"forbidden":    {[]byte(status(403, "Forbidden")), 403, "", "the server refuses"},
		"half":         {second[:len(second)-20], 200, "", "the answer of the API server about nodes ends early"},
		"nothing":      {nil, 200, "", "unexpected end of JSON input"},
		"only a begin": {second[:4], 200, "", "the answer of the API server about nodes ends early"},
		"no list":      {append([]byte("k8s\x00"), 0x10, 0x01), 200, "", "the API server does not answer with a list"},
	} {
		t.Run(name, func(t *testing.T) {
			r := nodesOf(t, func(w http.ResponseWriter, request *http.Request) {
				switch query := request.URL.Query(); {
				case query.Get("limit") == "":
					_, _ = w.Write(nodeList(t, "", "a", "c"))
				case query.Get("continue") == "":
					_, _ = w.Write(first)
				default:
					w.Header().Set("Content-Type", runtime.ContentTypeJSON)
					w.WriteHeader(tt.code)
					_, _ = w.Write(tt.second)
				}
			})
			objects, version, err := readPages(t.Context(), r, "nodes", r.nodes())
			if tt.err != "" || err != nil {
				if tt.err == "" || err == nil || !strings.Contains(err.Error(), tt.err) || objects != nil {
					t.Errorf("%v, %v, want %q", objects, err, tt.err)
				}
				return
			}
			var names []string
			for _, object := range objects {
				if names = append(names, object.(*corev1.Node).Name); object.(*corev1.Node).ManagedFields != nil {
					t.Errorf("%s has managed fields", object.(*corev1.Node).Name)
				}
			}
			if got := strings.Join(names, " "); got != tt.want || version != "7" {
				t.Errorf("%q of version %s, want %q", got, version, tt.want)
			}
		})
	}
}

// TestStreamed: an object is there before the API server has sent the next.
func TestStreamed(t *testing.T) {
	answer, seen := nodeList(t, "", "a", strings.Repeat("b", 1<<16)), make(chan struct{})
	r := nodesOf(t, func(w http.ResponseWriter, request *http.Request) {
		_, _ = w.Write(answer[:1<<14])
		w.(http.Flusher).Flush()
		select {
		case <-seen:
			_, _ = w.Write(answer[1<<14:])
		case <-request.Context().Done():
		}
	})
	ctx, stop := context.WithTimeout(t.Context(), metricsTimeout)
	defer stop()
	visited := 0
	_, err := readPage(ctx, r.nodes(), metav1.ListOptions{}, func(runtime.Object) error {
		if visited++; visited == 1 {
			close(seen)
		}
		return nil
	})
	if err != nil || visited != 2 {
		t.Errorf("%d objects, %v, want 2", visited, err)
	}
}
