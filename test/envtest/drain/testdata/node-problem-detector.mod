module node-problem-detector

go 1.26.0

require k8s.io/node-problem-detector v1.34.0
