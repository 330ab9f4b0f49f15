package clusterdata

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestTemplatePages: templates are read in pages that are small also if each template is as large as the API server stores it,
// and the oldest of all pages counts.
func TestTemplatePages(t *testing.T) {
	const all, size = 65, 100 << 10
	begin := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	spec := resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu"}}}}
	largest := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		list := resourceapi.ResourceClaimTemplateList{TypeMeta: metav1.TypeMeta{Kind: "ResourceClaimTemplateList", APIVersion: "resource.k8s.io/v1"}}
		for i := from; i < min(from+limit, all); i++ {
			template := resourceapi.ResourceClaimTemplate{Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec}}
			template.Name, template.CreationTimestamp = fmt.Sprint("t-", i), metav1.NewTime(begin.Add(-time.Duration(i)*time.Hour))
			template.Annotations = map[string]string{"a": strings.Repeat("a", size)}
			list.Items = append(list.Items, template)
		}
		if from+limit < all {
			list.Continue = strconv.Itoa(from + limit)
		}
		data, _ := json.Marshal(list)
		largest = max(largest, len(data))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(data)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	templates := NewTemplates(client, logr.Discard())
	templates.timeout = time.Minute // this is about what is read, on a busy machine as well
	oldest, known := templates.Oldest("team-a", &spec)
	if want := begin.Add(-(all - 1) * time.Hour); !known || !oldest.Equal(want) {
		t.Errorf("%s, %t, want %s", oldest, known, want)
	}
	if largest > 21*size {
		t.Errorf("a page of %d bytes, want at most 20 templates", largest)
	}
}
