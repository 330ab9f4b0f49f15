package v1alpha1

// AcknowledgementAnnotation is on a DeviceTaintRule or DeviceDrain that may hit more than
// the thresholds of the site: a ceiling such as "pods<=120,namespaces<=4".
const AcknowledgementAnnotation = "dra-steward.io/acknowledged-impact"
