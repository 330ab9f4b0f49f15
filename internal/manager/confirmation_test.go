package manager

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestSlipInAcknowledgement: an acknowledgement that cannot be read acknowledges nothing, and is in the way of nothing else.
func TestSlipInAcknowledgement(t *testing.T) {
	kept := &corev1.ConfigMap{Data: map[string]string{
		actSinceKey:                           "2026-03-04T05:06:07Z",
		"acknowledged-impact.gpu.example.com": "pods=120",
		"acknowledged-impact.nic.example.com": "pods<=5",
	}}
	said, unread, err := Options{}.readConfirmation(kept)
	if err != nil || unread == nil || said.ActSince.IsZero() {
		t.Errorf("%+v, %v, %v", said, unread, err)
	}
	if pods := said.Ceilings["nic.example.com"].Pods; len(said.Ceilings) != 1 || pods == nil || *pods != 5 {
		t.Errorf("%+v", said.Ceilings)
	}
	kept.Data[actSinceKey] = "yesterday"
	if _, _, err := (Options{}).readConfirmation(kept); err == nil {
		t.Error("a time that cannot be read is an error")
	}
}
