package review

import (
	"errors"
	"path"
	"regexp"
	"time"

	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// HasDriverPods reports whether the site lists pods of drivers in a namespace.
func (r Reviewer) HasDriverPods(namespace string) bool {
	for _, p := range r.driverPods.Pods {
		if p.Namespace == namespace {
			return true
		}
	}
	return false
}

// DriverPods returns the entries of the site that select a pod: it can be that of several drivers.
func (r Reviewer) DriverPods(namespace, name string, of map[string]string) (entries []v1alpha1.DriverPod) {
	for _, p := range r.driverPods.Pods {
		if p.Namespace == namespace && labels.SelectorFromSet(p.Labels).Matches(labels.Set(of)) && hasName(p, name) {
			entries = append(entries, p)
		}
	}
	return entries
}

// hasName reports whether the pattern of an entry matches a name.
func hasName(p v1alpha1.DriverPod, name string) bool {
	matches, err := path.Match(p.Names, name)
	return p.Names == "" || err == nil && matches
}

func (r Reviewer) driverPodSettings() validate.DriverPodSettings {
	return validate.DriverPodSettings{
		Deleters: validate.Deleters{Users: r.driverPods.Users, Groups: r.driverPods.Groups},
		Deadline: r.driverPods.Deadline,
	}
}

var namePattern = regexp.MustCompile(`^[a-z0-9.*-]*$`)

// checkDriverPods refuses entries that select no pods, or more than those of a driver.
func checkDriverPods(c v1alpha1.DriverPods) error {
	var errs []error
	add := func(all ...*field.Error) {
		for _, err := range all {
			errs = append(errs, err)
		}
	}
	at := field.NewPath("driverPods")
	if c.Deadline.Duration < 0 {
		add(field.Invalid(at.Child("deadline"), c.Deadline.Duration.String(), "must not be negative; 0 sets none"))
	}
	if d := c.Deadline.Duration; d > 0 && d < time.Minute {
		add(field.Invalid(at.Child("deadline"), d.String(), "must be at least 1m"))
	}
	for i, p := range c.Pods {
		at := at.Child("pods").Index(i)
		for _, message := range validation.IsDNS1123Label(p.Namespace) {
			add(field.Invalid(at.Child("namespace"), p.Namespace, message))
		}
		if len(p.Labels) == 0 {
			add(field.Required(at.Child("labels"), "must have the labels of the driver's pods"))
		}
		add(metavalidation.ValidateLabels(p.Labels, at.Child("labels"))...)
		if !namePattern.MatchString(p.Names) {
			add(field.Invalid(at.Child("names"), p.Names, "must consist of lower case letters, digits, '-', '.' and '*'"))
		}
		if len(p.Drivers) == 0 {
			add(field.Required(at.Child("drivers"), "must have the name of a driver, such as gpu.example.com"))
		}
		for j, driver := range p.Drivers {
			for _, message := range validation.IsDNS1123Subdomain(driver) {
				add(field.Invalid(at.Child("drivers").Index(j), driver, message))
			}
		}
	}
	return errors.Join(errs...)
}
