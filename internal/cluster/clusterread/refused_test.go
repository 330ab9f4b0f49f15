package clusterread

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestRefusedOnce: an API server that refuses a watch once, as while it starts, is followed again; until
// then the list is not current.
func TestRefusedOnce(t *testing.T) {
	for what, refused := range map[string]error{
		"403": apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("RBAC: not ready")),
		"401": apierrors.NewUnauthorized("the token has expired"),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var warn bytes.Buffer
				s := &server{nodes: []string{"a"}}
				read, w := reads(t, s, &warn)
				if got, err := read(); got != "a" || err != nil {
					t.Fatal(got, err)
				}
				set(s, &s.refused, refused)
				s.events.Stop()
				<-time.After(3 * time.Second)
				synctest.Wait()
				t.Logf("while it is refused: failing %q, said %q", w.Failing(), warn.String())
				if w.Failing() == "" {
					t.Error("the list counts as current")
				}
				set(s, &s.refused, nil)
				set(s, &s.nodes, []string{"b"})
				<-time.After(10 * time.Minute)
				synctest.Wait()
				if got, err := read(); got != "b" || err != nil || w.Failing() != "" {
					t.Errorf("10 minutes later: %q, %v, failing %q", got, err, w.Failing())
				}
			})
		})
	}
}
