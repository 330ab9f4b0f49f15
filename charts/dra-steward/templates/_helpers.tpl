{{- define "dra-steward.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "dra-steward.fullname" -}}
{{- $name := include "dra-steward.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* The labels by which a component's pods are selected; they never change. */ -}}
{{- define "dra-steward.componentSelectorLabels" -}}
app.kubernetes.io/name: {{ include "dra-steward.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- /* Each key once, as kustomize and Flux ask: labels that select, more, those of all objects, our own. */ -}}
{{- define "dra-steward.componentLabels" -}}
{{- $own := dict "app.kubernetes.io/version" .root.Chart.AppVersion "app.kubernetes.io/managed-by" .root.Release.Service "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- merge (include "dra-steward.componentSelectorLabels" . | fromYaml) (.more | default dict) (.root.Values.commonLabels | default dict) $own | toYaml -}}
{{- end -}}

{{- define "dra-steward.selectorLabels" -}}
{{ include "dra-steward.componentSelectorLabels" (dict "root" . "component" "webhook") }}
{{- end -}}

{{- define "dra-steward.labels" -}}
{{ include "dra-steward.componentLabels" (dict "root" . "component" "webhook") }}
{{- end -}}

{{- define "dra-steward.controllerName" -}}
{{ include "dra-steward.fullname" . }}-controller
{{- end -}}

{{- /* The ConfigMap with the state of the policies. */ -}}
{{- define "dra-steward.policyStatus" -}}
{{ include "dra-steward.fullname" . }}-policies
{{- end -}}

{{- /* The ConfigMaps with what drivers said of slices that are gone: how their names begin,
and all of them. */ -}}
{{- define "dra-steward.patchRecords" -}}
{{ include "dra-steward.controllerName" . }}-patches
{{- end -}}

{{- define "dra-steward.patchRecordNames" -}}
{{- $names := list -}}
{{- range $number := until 8 -}}
{{- $names = append $names (printf "%s-%d" (include "dra-steward.patchRecords" $) $number) -}}
{{- end -}}
[{{ join ", " $names }}]
{{- end -}}

{{- define "dra-steward.historyNames" -}}
{{- $names := list -}}
{{- range $number := until 10 -}}
{{- $names = append $names (printf "%s-history-%d" (include "dra-steward.controllerName" $) $number) -}}
{{- end -}}
[{{ join ", " $names }}]
{{- end -}}

{{- define "dra-steward.controllerSelectorLabels" -}}
{{ include "dra-steward.componentSelectorLabels" (dict "root" . "component" "controller") }}
{{- end -}}

{{- define "dra-steward.controllerLabels" -}}
{{ include "dra-steward.componentLabels" (dict "root" . "component" "controller") }}
{{- end -}}

{{- define "dra-steward.nodeName" -}}
{{ include "dra-steward.fullname" . }}-node
{{- end -}}

{{- define "dra-steward.nodeSelectorLabels" -}}
{{ include "dra-steward.componentSelectorLabels" (dict "root" . "component" "node") }}
{{- end -}}

{{- define "dra-steward.nodeLabels" -}}
{{ include "dra-steward.componentLabels" (dict "root" . "component" "node") }}
{{- end -}}

{{- /* Where the node agent lives: it needs folders of the node and user 0, which the
levels restricted and baseline of Pod Security refuse. A namespace that enforces one of
them stops the installation here, and not later in a DaemonSet without pods. */ -}}
{{- define "dra-steward.nodeNamespace" -}}
{{- $namespace := .Values.node.namespace | default .Release.Namespace -}}
{{- if not .Values.node.createNamespace -}}
{{- $labels := (lookup "v1" "Namespace" "" $namespace | default dict).metadata | default dict | dig "labels" dict -}}
{{- $level := get $labels "pod-security.kubernetes.io/enforce" -}}
{{- if has $level (list "restricted" "baseline") -}}
{{- fail (printf "node.enabled: namespace %s enforces the Pod Security level %s, and the node agent needs folders of the node: set node.createNamespace: true and node.namespace to a name of its own, or run kubectl label --overwrite namespace %s pod-security.kubernetes.io/enforce=privileged" $namespace $level $namespace) -}}
{{- end -}}
{{- end -}}
{{- $namespace -}}
{{- end -}}

{{- /* The folders of the node below /host: all of it, or those of CDI and what they name. */ -}}
{{- define "dra-steward.nodeFolders" -}}
{{- if has "/" (.Values.node.hostPaths | default list) -}}
["/"]
{{- else -}}
{{- $folders := list -}}
{{- range concat (.Values.node.cdiDirs | default list) (.Values.node.hostPaths | default list) -}}
{{- $folders = append $folders (clean .) -}}
{{- end -}}
{{- $folders | uniq | toJson -}}
{{- end -}}
{{- end -}}

{{- define "dra-steward.schedulerName" -}}
{{ include "dra-steward.fullname" . }}-scheduler
{{- end -}}

{{- define "dra-steward.schedulerImage" -}}
{{ include "dra-steward.imageReference" (dict "root" . "image" .Values.scheduler.image) }}
{{- end -}}

{{- define "dra-steward.schedulerSelectorLabels" -}}
{{ include "dra-steward.componentSelectorLabels" (dict "root" . "component" "scheduler") }}
{{- end -}}

{{- define "dra-steward.schedulerLabels" -}}
{{ include "dra-steward.componentLabels" (dict "root" . "component" "scheduler") }}
{{- end -}}

{{- define "dra-steward.serviceAccountName" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else if .Values.serviceAccount.create -}}
{{- include "dra-steward.fullname" . -}}
{{- else -}}
default
{{- end -}}
{{- end -}}

{{- define "dra-steward.image" -}}
{{ include "dra-steward.imageReference" (dict "root" . "image" .Values.image) }}
{{- end -}}

{{- define "dra-steward.imageReference" -}}
{{- $registry := (.root.Values.global).imageRegistry | default .image.registry | default .root.Values.image.registry -}}
{{- $repository := .image.repository -}}
{{- with $registry -}}
{{- $repository = printf "%s/%s" . $repository -}}
{{- end -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- /* The finalizer mode. A bare off in a values file is the boolean false to YAML. */ -}}
{{- define "dra-steward.finalizerMode" -}}
{{- if kindIs "bool" .Values.defaults.finalizer -}}off{{- else -}}{{ .Values.defaults.finalizer }}{{- end -}}
{{- end -}}

{{- define "dra-steward.uninstallName" -}}
{{ include "dra-steward.fullname" . }}-uninstall
{{- end -}}

{{- /* What helm uninstall makes first and deletes again: no part of the release. */ -}}
{{- define "dra-steward.uninstallMetadata" -}}
labels:
  {{- include "dra-steward.componentLabels" (dict "root" .root "component" "uninstall") | nindent 2 }}
annotations:
  helm.sh/hook: pre-delete
  helm.sh/hook-weight: {{ .weight | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{- /* What the controller does: what is set for it, or what follows from the mode. */ -}}
{{- define "dra-steward.evictionMode" -}}
{{- .Values.controller.mode | default (ternary "auto" "observe" (eq .Values.mode "enforce")) -}}
{{- end -}}

{{- /* Components whose writes are never denied, as JSON. The default is
review.DefaultSystemUsers and our own scheduler. */ -}}
{{- define "dra-steward.systemUsers" -}}
{{- $users := list "system:kube-scheduler" "system:serviceaccount:kube-system:resource-claim-controller" "system:kube-controller-manager" -}}
{{- if .Values.scheduler.enabled -}}
{{- $users = append $users (printf "system:serviceaccount:%s:%s" .Release.Namespace (include "dra-steward.schedulerAccount" .)) -}}
{{- end -}}
{{- if not (kindIs "invalid" .Values.systemUsers) -}}
{{- $users = .Values.systemUsers -}}
{{- end -}}
{{- toJson $users -}}
{{- end -}}

{{- /* Behind those of the site, as JSON: the claims of proofs tolerate the cordon of their device and the taint that
is the cause, without an end. Only the controller creates them. */ -}}
{{- define "dra-steward.proofExemptions" -}}
{{- $namespaces := list -}}
{{- if include "dra-steward.proofs" . -}}
{{- $namespaces = append $namespaces .Values.controller.reactions.proofs.namespace -}}
{{- end -}}
{{- if include "dra-steward.rolls" . -}}
{{- $namespaces = concat $namespaces .Values.controller.rolls.proofNamespaces -}}
{{- end -}}
{{- $exemptions := list -}}
{{- with uniq $namespaces -}}
{{- $exemptions = append $exemptions (dict "rules" (list "DRA-TOL-002" "DRA-TOL-003" "DRA-TOL-004" "DRA-TOL-005" "toleration-rewrite")
  "namespaces" . "users" (list (include "dra-steward.controllerUser" $)) "expires" "9999-12-31T00:00:00Z"
  "reason" "the claim of a proof tolerates the cordon of its device and the taint that is the cause") -}}
{{- end -}}
{{- toJson $exemptions -}}
{{- end -}}

{{- /* The configuration file: what the site sets, nothing that it leaves to upstream. */ -}}
{{- define "dra-steward.config" -}}
{{- include "dra-steward.requireNames" . -}}
{{- $limits := dict -}}
{{- range $name, $limit := .Values.limits -}}
{{- if not (kindIs "invalid" $limit) -}}
{{- $_ := set $limits $name (int $limit) -}}
{{- end -}}
{{- end -}}
apiVersion: dra-steward.io/v1alpha1
kind: StewardConfiguration
mode: {{ .Values.mode }}
{{- with $limits }}
limits:
  {{- toYaml . | nindent 2 }}
{{- end }}
defaults:
  finalizer: {{ include "dra-steward.finalizerMode" . | quote }}
  timeAddedWindow: {{ .Values.defaults.timeAddedWindow | quote }}
{{- if or .Values.defaults.tolerations.expandEmptyEffect .Values.defaults.tolerations.rules }}
  tolerations: {{ toJson .Values.defaults.tolerations }}
{{- end }}
{{- with .Values.rules }}
rules:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.protectedLabels.keys }}
protectedLabels:
  keys: {{ toJson . }}
  {{- with $.Values.protectedLabels.tenant }}
  {{- if not (has . $.Values.protectedLabels.keys) }}
  {{- fail "protectedLabels.tenant: must be one of protectedLabels.keys; otherwise any user who may label a namespace could leave the tenant" }}
  {{- end }}
  tenant: {{ . | quote }}
  {{- end }}
{{- end }}
{{- with concat (.Values.exemptions | default list) (include "dra-steward.proofExemptions" . | fromJsonArray) }}
exemptions:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if or .Values.scheduler.enabled (not (kindIs "invalid" .Values.systemUsers)) }}
systemUsers: {{ include "dra-steward.systemUsers" . }}
{{- end }}
{{- with .Values.opaqueParameters }}
opaqueParameters:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with omit .Values.policies "configMaps" }}
policies:
  {{- toYaml . | nindent 2 }}
{{- end }}
guard:
  onError: {{ .Values.guard.onError }}
{{- with .Values.guard.window }}
  window: {{ . }}
{{- end }}
{{- with .Values.guard.mode }}
  mode: {{ . | quote }}
{{- end }}
{{- $thresholds := dict -}}
{{- range $name, $limit := $.Values.guard.thresholds -}}
{{- if not (kindIs "invalid" $limit) -}}
{{- $_ := set $thresholds $name (int $limit) -}}
{{- end -}}
{{- end -}}
{{- with $thresholds }}
  thresholds:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- if or .Values.forceDeletion.users .Values.forceDeletion.groups }}
forceDeletion:
  {{- toYaml (omit .Values.forceDeletion "enabled") | nindent 2 }}
{{- end }}
{{- if .Values.driverPods.pods }}
driverPods:
  {{- $driverPods := omit .Values.driverPods "enabled" }}
  {{- range $key, $value := $driverPods }}
  {{- if $value }}
  {{ $key }}:
    {{- if kindIs "slice" $value }}
    {{- toYaml $value | nindent 4 }}
    {{- else }} {{ $value }}
    {{- end }}
  {{- end }}
  {{- end }}
{{- end }}
{{- with .Values.drivers }}
drivers:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.server }}
{{- if or .kubernetesVersion .featureGates }}
server:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "dra-steward.host" -}}
{{ include "dra-steward.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{- /* The Secret with the certificate, in each mode of certificates. */ -}}
{{- define "dra-steward.certificateSecret" -}}
{{- if eq .Values.certificates.mode "provided" -}}
{{- .Values.certificates.existingSecret -}}
{{- else -}}
{{ include "dra-steward.fullname" . }}-certificate
{{- end -}}
{{- end -}}

{{- /* How many seconds before its end a certificate is alarming: a day, and no more than half of
renewBefore, before which its successor is served. */ -}}
{{- define "dra-steward.certificateAlarm" -}}
{{- $alarm := 86400 -}}
{{- $mode := .Values.certificates.mode -}}
{{- if ne $mode "provided" -}}
{{- $renewed := 0 -}}
{{- $before := (index .Values.certificates $mode).renewBefore -}}
{{- range $unit, $seconds := dict "h" 3600 "m" 60 "s" 1 -}}
{{- $renewed = add $renewed (mul $seconds (regexFind (printf "[0-9]+%s" $unit) $before | trimSuffix $unit | atoi)) -}}
{{- end -}}
{{- $alarm = min $alarm (div $renewed 2) -}}
{{- end -}}
{{- $alarm -}}
{{- end -}}

{{- /* Empty unless the controller keeps the certificate. */ -}}
{{- define "dra-steward.selfManaged" -}}
{{- if eq .Values.certificates.mode "selfManaged" }}true{{ end -}}
{{- end -}}

{{- /* Two releases would both check each write and both evict. With crds.install the definitions, which have one owner,
refuse the second one. */ -}}
{{- define "dra-steward.requireOneRelease" -}}
{{- if not .Values.crds.install -}}
{{- range (lookup "admissionregistration.k8s.io/v1" "ValidatingWebhookConfiguration" "" "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- if and (eq (get $labels "app.kubernetes.io/name") (include "dra-steward.name" $)) (ne (get $labels "app.kubernetes.io/instance") $.Release.Name) -}}
{{- fail (printf "the release %s of dra-steward is installed already (ValidatingWebhookConfiguration %s): upgrade or uninstall it; two releases would both check each write and both evict" (get $labels "app.kubernetes.io/instance") .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dra-steward.requireCertificate" -}}
{{- with .Values.certificates.clientCA -}}
{{- if not (contains "-----BEGIN CERTIFICATE-----" .) -}}
{{- fail "certificates.clientCA: must be one or more certificates in PEM; pass the file: --set-file certificates.clientCA=client-ca.crt" -}}
{{- end -}}
{{- end -}}
{{- $ca := .Values.certificates.caBundle -}}
{{- if ne .Values.certificates.mode "provided" -}}
{{- if or .Values.certificates.existingSecret $ca -}}
{{- fail (printf "certificates.existingSecret and certificates.caBundle are for certificates.mode provided, which is %s: set the mode or leave them out" .Values.certificates.mode) -}}
{{- end -}}
{{- if and (include "dra-steward.selfManaged" .) (not .Values.controller.enabled) -}}
{{- fail "controller.enabled false: the controller renews the certificate of certificates.mode selfManaged; set the mode to certManager or provided, or leave the controller enabled" -}}
{{- end -}}
{{- else if not (and .Values.certificates.existingSecret $ca) -}}
{{- $host := include "dra-steward.host" . -}}
{{- fail (printf (include "dra-steward.certificateHelp" .) $host $host .Release.Namespace .Release.Namespace .Release.Namespace) -}}
{{- else if not (contains "-----BEGIN CERTIFICATE-----" $ca) -}}
{{- fail "certificates.caBundle: must be one or more certificates in PEM (-----BEGIN CERTIFICATE-----), without base64 around them; pass the file: --set-file certificates.caBundle=ca.crt" -}}
{{- end -}}
{{- end -}}

{{- define "dra-steward.certificateHelp" }}

certificates.mode provided needs certificates.existingSecret and certificates.caBundle:
the API server only talks to a webhook whose certificate it can verify. To make a pair
that lasts a year:

  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \
    -keyout tls.key -out tls.crt -subj "/CN=%s" \
    -addext "subjectAltName=DNS:%s"
  kubectl create namespace %s
  kubectl -n %s create secret tls dra-steward-tls --cert=tls.crt --key=tls.key

and then install with

  helm install … -n %s --set certificates.mode=provided \
    --set certificates.existingSecret=dra-steward-tls \
    --set-file certificates.caBundle=tls.crt
{{ end -}}

{{- /* A scheduler supports API servers of its own minor and the next. */ -}}
{{- define "dra-steward.requireSchedulerVersion" -}}
{{- if not (semverCompare .Values.scheduler.kubernetesVersions .Capabilities.KubeVersion.Version) }}
{{- fail (printf "scheduler.enabled: the scheduler is kube-scheduler 1.37 and supports Kubernetes %s, not %s; use patches.mode=materialize instead (docs/patches.md), name the version for helm template with --kube-version, or set scheduler.kubernetesVersions" .Values.scheduler.kubernetesVersions .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- end -}}

{{- /* Patches reach schedulers in one way: in the slices, or in our scheduler. */ -}}
{{- define "dra-steward.requireOneMode" -}}
{{- if eq .Values.patches.mode "materialize" }}
{{- if .Values.scheduler.enabled }}
{{- range .Values.scheduler.profiles }}
{{- if .patches }}
{{- fail "patches.mode=materialize and scheduler.enabled both apply ResourceSlicePatches: choose one (docs/patches.md); to change over to the scheduler, set patches.mode=restore" }}
{{- end }}
{{- end }}
{{- end }}
{{- if not (and .Values.liveData.enabled .Values.controller.enabled) }}
{{- fail "patches.mode=materialize needs liveData.enabled, which reads the patches, and controller.enabled, which updates slices with them" }}
{{- end }}
{{- else if and (eq .Values.patches.mode "restore") (not .Values.controller.enabled) }}
{{- fail "patches.mode=restore needs controller.enabled, which removes patched values from slices" }}
{{- end }}
{{- end -}}

{{- /* What a component has of its own, or of the webhook where it is null. */ -}}
{{- define "dra-steward.inherited" -}}
{{- /* index, not get: get returns "" for an absent key, and Helm 4 leaves out the nulls of values.yaml. */ -}}
{{- $value := index .component .key -}}
{{- if kindIs "invalid" $value -}}
{{- $value = get .root.Values .key -}}
{{- end -}}
{{- with $value -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- /* How the pods of a component run: the network of the node or their own, and as whom. */ -}}
{{- define "dra-steward.pod" -}}
{{- if .component.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .component.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" (.component.hostNetwork | default false)) }}
dnsPolicy: {{ . }}
{{- end }}
{{- with include "dra-steward.inherited" (dict "root" .root "component" .component "key" "podSecurityContext") }}
securityContext:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "dra-steward.container" -}}
{{- with include "dra-steward.inherited" (dict "root" .root "component" .component "key" "securityContext") }}
securityContext:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* The probes of the container. null omits one. */ -}}
{{- define "dra-steward.probes" -}}
{{- range $name, $path := dict "livenessProbe" (.live | default "/healthz") "readinessProbe" "/readyz" }}
{{- with index $.component $name }}
{{ $name }}:
  httpGet:
    path: {{ $path }}
    port: {{ $.port | default "health" }}
    {{- with $.scheme }}
    scheme: {{ . }}
    {{- end }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* What Deployments and DaemonSets have in common. */ -}}
{{- define "dra-steward.workload" -}}
{{- if not (kindIs "invalid" .revisionHistoryLimit) }}
revisionHistoryLimit: {{ .revisionHistoryLimit }}
{{- end }}
{{- with .strategy }}
strategy:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Environment variables: those of the chart whose names the site does not set, then the site's.
A name twice is refused by server-side apply. */ -}}
{{- define "dra-steward.env" -}}
{{- $names := list -}}
{{- range .extra -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $all := list -}}
{{- range .own -}}
{{- if not (has .name $names) -}}
{{- $all = append $all . -}}
{{- end -}}
{{- end -}}
{{- concat $all (.extra | default list) | toYaml -}}
{{- end -}}

{{- define "dra-steward.webhookEnv" -}}
{{ include "dra-steward.memoryLimit" . }}
{{- end -}}

{{- define "dra-steward.controllerEnv" -}}
{{ include "dra-steward.memoryLimit" . }}
# It keeps much for long and makes little garbage except while it evicts.
- name: GOGC
  value: "50"
{{- end -}}

{{- define "dra-steward.nodeEnv" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{ include "dra-steward.memoryLimit" . }}
{{- end -}}

{{- define "dra-steward.schedulerEnv" -}}
# Events about the scheduler itself are about its pod.
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{ include "dra-steward.memoryLimit" . }}
{{- end -}}

{{- /* What the pods of a NetworkPolicy may reach. Without rules it says nothing about that. */ -}}
{{- define "dra-steward.egress" -}}
policyTypes: [Ingress{{ if .Values.networkPolicy.egress }}, Egress{{ end }}]
{{- with .Values.networkPolicy.egress }}
egress:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Where the pods of a component run: its own value, or that of the webhook where it is
null. */ -}}
{{- define "dra-steward.placement" -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" -}}
{{- with include "dra-steward.inherited" (dict "root" $.root "component" $.component "key" $key) }}
{{ $key }}:
  {{- . | nindent 2 }}
{{- end -}}
{{- end -}}
{{- with .component.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- else }}
{{- with .selector }}
{{ include "dra-steward.spread" . }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Replicas prefer different nodes and zones. */ -}}
{{- define "dra-steward.spread" -}}
topologySpreadConstraints:
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - topologyKey: {{ $key }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- $ | nindent 8 }}
{{- end }}
{{- end -}}

{{- /* Labels and annotations of the pods of a component. */ -}}
{{- define "dra-steward.podMetadata" -}}
labels:
  {{- $more := merge (dict) (.component.podLabels | default dict) (.root.Values.podLabels | default dict) }}
  {{- include "dra-steward.componentLabels" (dict "root" .root "component" .name "more" $more) | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) (.component.podAnnotations | default dict) (.root.Values.podAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* The timeout of the webhook for policies: compiling them and running their tests takes longer than
checking an object. */ -}}
{{- define "dra-steward.policiesTimeout" -}}10{{- end -}}

{{- /* The longest timeout of the webhooks: no API server waits longer. That of pods is always 2. */ -}}
{{- define "dra-steward.requestTimeout" -}}
{{- $longest := 2 -}}
{{- if .Values.policies.configMaps -}}
{{- $longest = include "dra-steward.policiesTimeout" . | int -}}
{{- end -}}
{{- range $name, $webhook := .Values.webhooks -}}
{{- if kindIs "map" $webhook -}}
{{- $longest = max $longest (int $webhook.timeoutSeconds) -}}
{{- end -}}
{{- end -}}
{{- $longest -}}
{{- end -}}

{{- /* The garbage collector works harder before the container runs out of memory. MiB times
10^6 bytes is 95 % of the limit, or of the node's memory where there is no limit. */ -}}
{{- define "dra-steward.memoryLimit" -}}
- name: MEMORY_LIMIT_MIB
  valueFrom:
    resourceFieldRef:
      resource: limits.memory
      divisor: 1Mi
- name: GOMEMLIMIT
  value: $(MEMORY_LIMIT_MIB)000000B
{{- end -}}

{{- define "dra-steward.accountName" -}}
{{- .component.serviceAccount.name | default .default -}}
{{- end -}}
{{- define "dra-steward.controllerAccount" -}}
{{- include "dra-steward.accountName" (dict "component" .Values.controller "default" (include "dra-steward.controllerName" .)) -}}
{{- end -}}
{{- define "dra-steward.controllerUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "dra-steward.controllerAccount" . }}
{{- end -}}
{{- define "dra-steward.nodeAccount" -}}
{{- include "dra-steward.accountName" (dict "component" .Values.node "default" (include "dra-steward.nodeName" .)) -}}
{{- end -}}
{{- define "dra-steward.schedulerAccount" -}}
{{- include "dra-steward.accountName" (dict "component" .Values.scheduler "default" (include "dra-steward.schedulerName" .)) -}}
{{- end -}}

{{/* Known faults of kube-scheduler in the cluster's version; empty for a version that is fixed or unknown. */}}
{{- define "dra-steward.knownFaults" -}}
{{- $version := regexFind "^v?[0-9]+[.][0-9]+[.][0-9]+" .Capabilities.KubeVersion.Version -}}
{{- $faults := list -}}
{{- range .Files.Get "files/faults.yaml" | fromYamlArray -}}
{{- if and $version (semverCompare .versions $version) -}}
{{- $faults = append $faults .reference -}}
{{- end -}}
{{- end -}}
{{- join ", " $faults -}}
{{- end -}}

{{/* Not empty if the controller carries out DeviceReactions. */}}
{{- define "dra-steward.reactions" -}}
{{- if .Values.controller.reactions.enabled -}}
{{- if not (and .Values.controller.enabled .Values.controller.drains.enabled) -}}
{{- fail "controller.reactions.enabled: reactions create DeviceDrains; set controller.enabled=true and controller.drains.enabled=true" -}}
{{- end -}}
true
{{- end -}}
{{- end -}}

{{/* Not empty if drained devices are tested by Jobs. */}}
{{- define "dra-steward.proofs" -}}
{{- if .Values.controller.reactions.proofs.enabled -}}
{{- if not (include "dra-steward.reactions" .) -}}
{{- fail "controller.reactions.proofs.enabled: proofs belong to reactions; set controller.reactions.enabled=true" -}}
{{- end -}}
{{- if eq .Values.controller.reactions.proofs.namespace .Release.Namespace -}}
{{- fail "controller.reactions.proofs.namespace: must name another namespace than that of the release: its pods run what authors of reactions write" -}}
{{- end -}}
true
{{- end -}}
{{- end -}}

{{- define "dra-steward.proofAccount" -}}
{{ include "dra-steward.fullname" . }}-proof
{{- end -}}

{{/* Not empty if the controller carries out DeviceRolls. */}}
{{- define "dra-steward.rolls" -}}
{{- if .Values.controller.rolls.enabled -}}
{{- if not (and .Values.controller.enabled .Values.controller.drains.enabled) -}}
{{- fail "controller.rolls.enabled: rolls create DeviceDrains; set controller.enabled=true and controller.drains.enabled=true" -}}
{{- end -}}
true
{{- end -}}
{{- end -}}

{{/* Not empty if the guard finds out which pods do not land again. */}}
{{- define "dra-steward.foresight" -}}
{{- if and .Values.guard.enabled .Values.guard.foresight -}}
{{- if not .Values.liveData.enabled -}}
{{- fail "guard.foresight: needs the devices of the cluster; set liveData.enabled=true" -}}
{{- end -}}
true
{{- else if not (kindIs "invalid" (.Values.guard.thresholds).stranded) -}}
{{- fail "guard.thresholds.stranded: is not computed; set guard.enabled=true and guard.foresight=true" -}}
{{- end -}}
{{- end -}}

{{/* A type of dra-steward. v1beta1 has the schema of v1alpha1, so that the API server converts by itself. */}}
{{- define "dra-steward.crd" -}}
{{- $values := .root.Values.crds }}
{{- $crd := .root.Files.Get (printf "files/crds/dra-steward.io_%s.yaml" .resource) | fromYaml }}
{{- $_ := set $crd.metadata "labels" (include "dra-steward.labels" .root | fromYaml) }}
{{- if $values.keep }}
{{- $_ := set $crd.metadata.annotations "helm.sh/resource-policy" "keep" }}
{{- end }}
{{- if $values.v1beta1 }}
{{- $alpha := first $crd.spec.versions }}
{{- $beta := deepCopy $alpha }}
{{- $_ := set $beta "name" "v1beta1" }}
{{- $_ := set $beta "storage" (eq $values.v1beta1 "stored") }}
{{- $_ := set $alpha "storage" (ne $values.v1beta1 "stored") }}
{{- $_ := set $crd.spec "versions" (list $beta $alpha) }}
{{- $_ := set $crd.spec "conversion" (dict "strategy" "None") }}
{{- end }}
{{- toYaml $crd }}
{{- end }}
