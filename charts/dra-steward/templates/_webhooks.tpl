{{- /* What both webhook configurations share, one definition per idea. */ -}}

{{- /* Only what renews the certificate writes caBundle: a chart that did would
reset it at every upgrade. */ -}}
{{- define "dra-steward.clientConfig" -}}
clientConfig:
  service:
    name: {{ include "dra-steward.fullname" .root }}
    namespace: {{ .root.Release.Namespace | quote }}
    path: {{ .path }}
    port: 443
  {{- if eq .root.Values.certificates.mode "provided" }}
  caBundle: {{ .root.Values.certificates.caBundle | b64enc }}
  {{- end }}
admissionReviewVersions: [v1]
sideEffects: None
matchPolicy: Equivalent
{{- end -}}

{{- /* cert-manager writes the authority of this certificate into caBundle; the site cannot change that annotation. */ -}}
{{- define "dra-steward.injectAuthority" -}}
{{- $annotations := dict -}}
{{- if eq .Values.certificates.mode "certManager" -}}
{{- $annotations = dict "cert-manager.io/inject-ca-from" (printf "%s/%s" .Release.Namespace (include "dra-steward.fullname" .)) -}}
{{- end -}}
{{- with merge $annotations (.Values.webhooks.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* A namespace cannot forge this label: the API server sets it to the name. */ -}}
{{- define "dra-steward.namespaceSelector" -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
        {{- toYaml (concat (list "kube-system" .Release.Namespace) (.Values.webhooks.excludedNamespaces | default list) | uniq) | nindent 8 }}
    {{- with .Values.webhooks.namespaceSelector.matchExpressions }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.webhooks.namespaceSelector.matchLabels }}
  matchLabels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- /* The conditions of the site, before those of the webhook. */ -}}
{{- define "dra-steward.siteConditions" -}}
{{- with .Values.webhooks.matchConditions -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- define "dra-steward.rule" -}}
rules:
  - apiGroups: [resource.k8s.io]
    {{- if eq .resource "devicetaintrules" }}
    # Every version by name. Equivalent only converts to a version that is served,
    # and no server before 1.37 serves v1 of this kind.
    apiVersions: [v1, v1beta2, v1alpha3]
    {{- else }}
    apiVersions: [v1]
    {{- end }}
    resources: [{{ .resource }}]
    operations: [CREATE, UPDATE]
    scope: {{ .scope }}
{{- end -}}

{{- /* What is on its way out may go, whatever it looks like. */ -}}
{{- define "dra-steward.notDeleting" -}}
- name: not-being-deleted
  expression: >-
    request.operation == 'CREATE' || !has(oldObject.metadata.deletionTimestamp)
{{- end -}}

{{- define "dra-steward.specChanges" -}}
request.operation == 'CREATE' ||
!(has(object.spec) && has(oldObject.spec) && object.spec == oldObject.spec)
{{- end -}}

{{- /* A slice of which nothing is filled in, restored or dropped by an older API server: it has
no taint and no values of patches. A slice with a field that the list omits is sent to the webhook. */ -}}
{{- define "dra-steward.plainSlice" -}}
has(object.spec) &&
object.spec.all(field, field in ['driver', 'pool', 'nodeName', 'nodeSelector', 'allNodes', 'devices']) &&
object.spec.?devices.orValue([]).all(device,
  device.all(field, field in ['name', 'attributes', 'capacity']) &&
  device.?attributes.orValue({}).all(name,
    device.attributes[name].all(kind, kind in ['bool', 'int', 'string', 'version'])) &&
  device.?capacity.orValue({}).all(name, device.capacity[name].all(field, field == 'value'))) &&
!('dra-steward.io/materialized' in object.metadata.?annotations.orValue({})) &&
!(request.operation == 'UPDATE' && 'dra-steward.io/materialized' in oldObject.metadata.?annotations.orValue({}))
{{- end -}}

{{- /* A write of a DeviceTaintRule that lets it evict what it did not evict before, or at another
time. internal/guard says the same in Go, and leaves out changes of timeAdded that move nothing. */ -}}
{{- define "dra-steward.evictsMore" -}}
has(object.spec) && has(object.spec.deviceSelector) && object.spec.taint.effect == 'NoExecute' && !(
  request.operation == 'UPDATE' && has(oldObject.spec) && has(oldObject.spec.deviceSelector) &&
  oldObject.spec.taint.effect == 'NoExecute' && oldObject.spec.taint.key == object.spec.taint.key &&
  (has(oldObject.spec.taint.value) ? oldObject.spec.taint.value : '') == (has(object.spec.taint.value) ? object.spec.taint.value : '') &&
  (has(oldObject.spec.taint.timeAdded) ? oldObject.spec.taint.timeAdded : '') == (has(object.spec.taint.timeAdded) ? object.spec.taint.timeAdded : '')
  {{- range $field := list "driver" "pool" "device" "deviceClassName" "selectors" }}
  {{- $old := printf "oldObject.spec.deviceSelector.%s" $field }}
  {{- $new := printf "object.spec.deviceSelector.%s" $field }}
  && (!has({{ $old }}) || (has({{ $new }}) && {{ $new }} == {{ $old }}))
  {{- end }}
)
{{- end -}}

{{- /* A drain that is neither paused nor a dry run. */ -}}
{{- define "dra-steward.drains" -}}
has({{ . }}.spec) && !(has({{ . }}.spec.paused) && {{ . }}.spec.paused) && !(has({{ . }}.spec.dryRun) && {{ . }}.spec.dryRun)
{{- end -}}

{{- /* A reaction that evicts pods. */ -}}
{{- define "dra-steward.acts" -}}
has({{ . }}.spec) && {{ . }}.spec.?mode.orValue('') == 'Act' && !{{ . }}.spec.?then.?cordonOnly.orValue(false)
{{- end -}}

{{- /* A roll that drains nodes. */ -}}
{{- define "dra-steward.rolls-on" -}}
has({{ . }}.spec) && !{{ . }}.spec.?paused.orValue(false) && !{{ . }}.spec.?undo.orValue(false)
{{- end -}}

{{- /* Our own controllers have the same thresholds; the API server vouches for the name. */ -}}
{{- define "dra-steward.notOurs" -}}
- name: not-our-controller
  expression: >-
    request.userInfo.username != '{{ include "dra-steward.controllerUser" . }}'
{{- end -}}

{{- /* The controllers that remove pods of which nothing is left; validate.PodRemovers. */ -}}
{{- define "dra-steward.notRemovers" -}}
- name: not-a-controller
  expression: >-
    !(request.userInfo.username in ['system:kube-controller-manager',
    'system:serviceaccount:kube-system:pod-garbage-collector',
    'system:serviceaccount:kube-system:namespace-controller'])
{{- end -}}

{{- /* The controllers that delete pods of drivers because there is nothing left to wait for:
those above, and of nodes that are lost or have a NoExecute taint; validate.NodeController. */ -}}
{{- define "dra-steward.notNodeControllers" -}}
{{ include "dra-steward.notRemovers" . }}
- name: not-the-node-controller
  expression: >-
    request.userInfo.username != 'system:serviceaccount:kube-system:node-controller'
{{- end -}}

{{- /* The namespaces of the drivers that the site lists. */ -}}
{{- define "dra-steward.driverNamespaces" -}}
{{- $namespaces := list -}}
{{- range .Values.driverPods.pods -}}
{{- if eq .namespace $.Release.Namespace -}}
{{- fail (printf "driverPods.pods: namespace %s is that of the release, which the webhook never checks" .namespace) -}}
{{- end -}}
{{- $namespaces = append $namespaces .namespace -}}
{{- end -}}
{{- if empty $namespaces -}}
{{- fail "driverPods.enabled: driverPods.pods must list the pods of at least one driver" -}}
{{- end -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: In
      values:
        {{- toYaml (uniq $namespaces) | nindent 8 }}
{{- end -}}

{{- /* A pod that the site lists, by namespace and labels. */ -}}
{{- define "dra-steward.isDriverPod" -}}
{{- range $i, $pod := .Values.driverPods.pods }}
{{- if $i }} || {{ end -}}
(request.namespace == '{{ $pod.namespace }}'
{{- range $key, $value := $pod.labels }} && oldObject.metadata.?labels[?'{{ $key }}'].orValue('') == '{{ $value }}'{{ end -}}
)
{{- end -}}
{{- end -}}

{{- /* A pod that may be one, by namespace and name. */ -}}
{{- define "dra-steward.isNamedAsDriverPod" -}}
{{- range $i, $pod := .Values.driverPods.pods }}
{{- if $i }} || {{ end -}}
(request.namespace == '{{ $pod.namespace }}'
{{- with $pod.names }} && request.name.matches('^{{ . | replace "." "[.]" | replace "*" ".*" }}$'){{ end -}}
)
{{- end -}}
{{- end -}}

{{- define "dra-steward.hasFinalizer" -}}
(has({{ . }}.metadata.finalizers) && 'resource.kubernetes.io/delete-protection' in {{ . }}.metadata.finalizers)
{{- end -}}

{{- define "dra-steward.hasAllocation" -}}
(has({{ . }}.status) && has({{ . }}.status.allocation))
{{- end -}}

{{- /* An allocated claim that has lost its finalizer, or never had it: nothing
would ever release its devices. Taking the finalizer away is not such a case. */ -}}
{{- define "dra-steward.needsRepair" -}}
{{ include "dra-steward.hasAllocation" "oldObject" }} &&
!{{ include "dra-steward.hasFinalizer" "oldObject" }} &&
!{{ include "dra-steward.hasFinalizer" "object" }}
{{- end -}}

{{- /* The actions of a ValidatingAdmissionPolicyBinding in the current mode. */ -}}
{{- define "dra-steward.validationActions" -}}
{{- if eq .Values.mode "observe" -}}
[Audit]
{{- else if eq .Values.mode "warn" -}}
[Warn, Audit]
{{- else -}}
[Deny]
{{- end -}}
{{- end -}}

{{- /* What happens to a write of claims or templates while no replica answers: the value, or
what the mode says. */ -}}
{{- define "dra-steward.failurePolicy" -}}
{{- (get .root.Values.webhooks .name).failurePolicy | default (ternary "Fail" "Ignore" (eq .root.Values.mode "enforce")) -}}
{{- end -}}

{{- /* The validation of a kind that tenants write. With Fail it is two webhooks: writes of
system users, which rules and policies never deny, pass while no replica answers, so that
pods of existing templates start. */ -}}
{{- define "dra-steward.tenantWebhooks" -}}
{{- $system := include "dra-steward.systemUsers" .root | fromJsonArray -}}
{{- $fails := eq (include "dra-steward.failurePolicy" .) "Fail" -}}
- name: {{ .name }}.validate.dra-steward.io
  {{- include "dra-steward.tenantWebhook" . | nindent 2 }}
  {{- if and $fails $system }}
    - name: not-a-system-user
      expression: >-
        !(request.userInfo.username in {{ toJson $system }})
  {{- end }}
  failurePolicy: {{ ternary "Fail" "Ignore" $fails }}
{{- if and $fails $system }}
- name: system-{{ .name }}.validate.dra-steward.io
  {{- include "dra-steward.tenantWebhook" . | nindent 2 }}
    - name: system-user
      expression: >-
        request.userInfo.username in {{ toJson $system }}
  failurePolicy: Ignore
{{- end }}
{{- end -}}

{{- define "dra-steward.tenantWebhook" -}}
{{ include "dra-steward.clientConfig" (dict "root" .root "path" "/validate") }}
timeoutSeconds: {{ (get .root.Values.webhooks .name).timeoutSeconds }}
{{ include "dra-steward.namespaceSelector" .root }}
{{ include "dra-steward.rule" (dict "resource" .resource "scope" "Namespaced") }}
{{- with .root.Values.webhooks.objectSelector }}
objectSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
matchConditions:
  {{- with include "dra-steward.siteConditions" .root | trim }}{{ . | nindent 2 }}{{ end }}
  {{- include "dra-steward.notDeleting" .root | nindent 2 }}
  - name: spec-changes
    expression: >-
      {{- include "dra-steward.specChanges" .root | nindent 6 }}
{{- end -}}

{{- /* True for pods with a resource for which a predicate on name is true, in containers,
init containers or the pod's own resources. internal/controllers/extendedresources has the
same expression. */ -}}
{{- define "dra-steward.asksFor" -}}
(object.spec.containers + object.spec.?initContainers.orValue([]) + [object.spec]).exists(holder,
holder.?resources.?limits.orValue({}).exists(name, {{ . }}) ||
holder.?resources.?requests.orValue({}).exists(name, {{ . }}))
{{- end -}}

{{- /* Empty unless the controller keeps the webhook for declared extended resources. With a
self-managed certificate it may write our webhook configurations in any case, and removes
that webhook after extendedResources.enabled was switched off. */ -}}
{{- define "dra-steward.keepsExtendedResources" -}}
{{- if or .Values.extendedResources.enabled (include "dra-steward.selfManaged" .) }}true{{ end -}}
{{- end -}}
