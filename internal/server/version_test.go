package server

import (
	"testing"

	"k8s.io/apimachinery/pkg/version"
)

func TestMinorOf(t *testing.T) {
	for _, test := range []struct {
		info version.Info
		want int
	}{
		{version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0"}, 37},
		{version.Info{Major: "1", Minor: "36+", GitVersion: "v1.36.3-gke.1"}, 36},
		{version.Info{Major: "1", Minor: "37", EmulationMajor: "1", EmulationMinor: "36"}, 36},
		{version.Info{GitVersion: "v1.35.4"}, 35},
		{version.Info{GitVersion: "v1.36.2-eks-473151a"}, 36},
		{version.Info{Major: "1", Minor: "33"}, 0},
		{version.Info{Major: "1", Minor: "99"}, 0},
		{version.Info{Major: "2", Minor: "36"}, 0},
		{version.Info{}, 0},
	} {
		if got := minorOf(&test.info); got != test.want {
			t.Errorf("%+v: %d, want %d", test.info, got, test.want)
		}
	}
}
