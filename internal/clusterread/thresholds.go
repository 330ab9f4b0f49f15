package clusterread

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/taints"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// defaultThresholds are those of a command that cannot read others.
func defaultThresholds(why string) taints.Thresholds {
	return taints.Thresholds{Thresholds: guard.DefaultThresholds(), From: "default; " + why}
}

// SiteThresholds are those of the release in the cluster, from the ConfigMap of its
// configuration, as far as the asker may read that.
func SiteThresholds(ctx context.Context, client kubernetes.Interface) taints.Thresholds {
	const file = "config.yaml"
	list, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=dra-steward", ResourceVersion: "0"})
	if err != nil {
		return defaultThresholds("the ConfigMap of the release cannot be read: " + err.Error())
	}
	var found []taints.Thresholds
	for i := range list.Items {
		text, has := list.Items[i].Data[file]
		if !has {
			continue
		}
		name := "ConfigMap " + list.Items[i].Namespace + "/" + list.Items[i].Name
		parsed, err := config.Parse(file, []byte(text))
		if err != nil {
			return defaultThresholds(name + " cannot be understood: " + err.Error())
		}
		found = append(found, taints.Thresholds{Thresholds: review.Thresholds(parsed.StewardConfiguration), From: name})
	}
	switch len(found) {
	case 0:
		return defaultThresholds("no release found")
	case 1:
		return found[0]
	}
	return defaultThresholds(fmt.Sprintf("%d releases found", len(found)))
}
