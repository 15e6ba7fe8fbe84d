{{/*
The chart's name, or the alias that an umbrella chart has for it, which may hold capitals and underscores: names of objects can't.
*/}}
{{- define "zonewise.chartName" -}}
{{- .Chart.Name | lower | replace "_" "-" | trimAll "-" | default "zonewise" -}}
{{- end -}}

{{- define "zonewise.name" -}}
{{- .Values.nameOverride | default (include "zonewise.chartName" .) | trunc 63 | trimAll "-" -}}
{{- end -}}

{{/*
The name of everything. A Service's name has at most 63 characters, begins with a letter and has no dots; a release's may.
*/}}
{{- define "zonewise.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := .Values.nameOverride | default (include "zonewise.chartName" .) -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) | replace "." "-" -}}
{{- $full = regexMatch "^[a-z]" $full | ternary $full (printf "z-%s" $full) -}}
{{- $full | trunc 63 | trimAll "-" -}}
{{- end -}}
{{- end -}}

{{- define "zonewise.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{/*
The name of what belongs to no namespace. Neither part can hold a dot, so no two releases share one.
*/}}
{{- define "zonewise.clusterName" -}}
{{- $namespace := include "zonewise.namespace" . -}}
{{- $fullname := include "zonewise.fullname" . -}}
{{- eq $namespace $fullname | ternary $fullname (printf "%s.%s" $namespace $fullname) -}}
{{- end -}}

{{- define "zonewise.selectorLabels" -}}
app.kubernetes.io/name: {{ include "zonewise.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "zonewise.chartLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (include "zonewise.chartName" .) .Chart.Version | replace "+" "_" | trunc 63 | trimAll "-" }}
{{- end -}}

{{- define "zonewise.podLabels" -}}
{{- $own := include "zonewise.selectorLabels" . | fromYaml -}}
{{- $version := dict "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- merge $own .Values.podLabels .Values.commonLabels $version | toYaml -}}
{{- end -}}

{{- define "zonewise.podAnnotations" -}}
{{- $mesh := include "zonewise.meshAnnotations" . | fromYaml -}}
{{- with merge dict .Values.podAnnotations .Values.commonAnnotations $mesh -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/*
Metadata of an object. Takes a dictionary: context, name, namespace (none for what belongs to the cluster), labels, annotations and, in
place of the chart's, appName.
Labels of selectors are the chart's; of the rest, those of the object win over common ones.
*/}}
{{- define "zonewise.metadata" -}}
{{- $own := include "zonewise.selectorLabels" .context | fromYaml -}}
{{- $chart := include "zonewise.chartLabels" .context | fromYaml -}}
{{- with .appName -}}
{{- $_ := set $own "app.kubernetes.io/name" . -}}
{{- end -}}
name: {{ .name | quote }}
{{- with .namespace }}
namespace: {{ . | quote }}
{{- end }}
labels:
  {{- merge $own (.labels | default dict) .context.Values.commonLabels $chart | toYaml | nindent 2 }}
{{- with merge dict (.annotations | default dict) .context.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
The same for the helm test, whose pod must not be taken for a replica.
*/}}
{{- define "zonewise.hookMetadata" -}}
{{- $name := printf "%s-check" (include "zonewise.name" .context | trunc 57 | trimAll "-") -}}
{{- include "zonewise.metadata" (merge (dict "appName" $name) .) -}}
{{- end -}}

{{/*
Off and off are false in YAML unless they are quoted.
*/}}
{{- define "zonewise.mode" -}}
{{- kindIs "bool" .Values.mode | ternary "Off" .Values.mode -}}
{{- end -}}

{{- define "zonewise.validation" -}}
{{- kindIs "bool" .Values.validation.mode | ternary "off" .Values.validation.mode -}}
{{- end -}}

{{/*
Whether API servers are to have what people write judged.
*/}}
{{- define "zonewise.validates" -}}
{{- if and (include "zonewise.isCalled" .) (ne (include "zonewise.validation" .) "off") }}true{{ end -}}
{{- end -}}

{{- define "zonewise.image" -}}
{{- $image := .Values.image -}}
{{- with (.Values.global).imageRegistry | default $image.registry }}{{ . }}/{{ end -}}
{{- $image.repository }}:{{ $image.tag | default .Chart.AppVersion -}}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{- define "zonewise.imagePullSecrets" -}}
{{- range concat .Values.imagePullSecrets (kindIs "slice" (.Values.global).imagePullSecrets | ternary (.Values.global).imagePullSecrets list) }}
- name: {{ kindIs "map" . | ternary (get (kindIs "map" . | ternary . dict) "name") . | quote }}
{{- end }}
{{- end -}}

{{- define "zonewise.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "zonewise.fullname" .) -}}
{{- end -}}

{{/*
With a dot, which no fullname has: else a release of that name would lose its ServiceAccount to another's test.
*/}}
{{- define "zonewise.checkName" -}}
{{- printf "%s.check" (include "zonewise.fullname" .) -}}
{{- end -}}

{{- define "zonewise.dnsName" -}}
{{- printf "%s.%s.svc" (include "zonewise.fullname" .) (include "zonewise.namespace" .) -}}
{{- end -}}

{{/*
The Secret with the server certificate. Each mode has its own, so that none finds another's in its way.
*/}}
{{- define "zonewise.certificateSecret" -}}
{{- $fullname := include "zonewise.fullname" . -}}
{{- $certificates := .Values.certificates -}}
{{- if eq $certificates.mode "provided" -}}
{{- $certificates.provided.secretName -}}
{{- else -}}
{{- eq $certificates.mode "cert-manager" | ternary (printf "%s-cert-manager" $fullname) (printf "%s-certificates" $fullname) -}}
{{- end -}}
{{- end -}}

{{- define "zonewise.isSelfManaged" -}}
{{- if eq .Values.certificates.mode "self-managed" }}true{{ end -}}
{{- end -}}

{{/*
Whether API servers are to call it. If not, no pod runs and nothing is permitted; the Deployment stays, since it owns the certificates.
*/}}
{{- define "zonewise.isCalled" -}}
{{- if ne (include "zonewise.mode" .) "Off" }}true{{ end -}}
{{- end -}}

{{/*
A number with all of its digits: templates would write small ones as 1e-06.
*/}}
{{- define "zonewise.decimal" -}}
{{- kindIs "float64" . | ternary (toJson .) (toString .) -}}
{{- end -}}

{{/*
With --reuse-values an older chart's values come without it.
*/}}
{{- define "zonewise.trafficDistribution" -}}
{{- .Values.trafficDistribution | default "None" -}}
{{- end -}}

{{/*
What decisions follow, for those who decide and those who check. A flag without labels means none; without the flag the program's own count.
*/}}
{{- define "zonewise.decisionArgs" -}}
- --mode={{ include "zonewise.mode" . }}
- --traffic-distribution={{ include "zonewise.trafficDistribution" . }}
- --default-mode={{ .Values.defaultMode }}
- --overload-threshold={{ include "zonewise.decimal" .Values.overloadThreshold }}
- --node-grace={{ .Values.nodeGrace }}
- --freeze-not-ready={{ include "zonewise.decimal" .Values.freezeNotReady }}
- --excluded-node-labels={{ join "," .Values.excludedNodeLabels }}
{{- with .Values.ignoredSliceManagers }}
- --ignored-slice-managers={{ join "," . }}
{{- end }}
- --capacity={{ .Values.capacity }}
{{- with .Values.capacityNodeSelector }}
- {{ printf "--capacity-node-selector=%s" . | quote }}
{{- end }}
- --node-info-tolerance={{ include "zonewise.decimal" .Values.nodeInfoTolerance }}
- --own-service={{ include "zonewise.namespace" . }}/{{ include "zonewise.fullname" . }}
{{- end }}

{{/*
The same for those who look on, with what extraArgs adds: flags of `zonewise explain`, and of `zonewise check`, too.
*/}}
{{- define "zonewise.explainArgs" -}}
{{ include "zonewise.decisionArgs" . }}
{{- range .Values.extraArgs }}
{{- if hasPrefix "--keep-" . }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The arguments of `zonewise check`, for the helm test and for NOTES.
*/}}
{{- define "zonewise.checkArgs" -}}
- --namespace={{ include "zonewise.namespace" . }}
- --webhook-configuration={{ include "zonewise.clusterName" . }}
- --lease-name={{ include "zonewise.fullname" . }}
{{ include "zonewise.explainArgs" . }}
{{- end }}

{{/*
A YAML list of arguments as words of a shell.
*/}}
{{- define "zonewise.shell" -}}
{{- $words := list -}}
{{- range fromYamlArray . -}}
{{- $isPlain := regexMatch "^[-A-Za-z0-9_./:=,]+$" . -}}
{{- $words = append $words ($isPlain | ternary . (printf "'%s'" (replace "'" "'\\''" .))) -}}
{{- end -}}
{{- join " " $words -}}
{{- end }}

{{/*
Whether helm can test: the test needs permissions, which must be the chart's to give or somebody's who gave them before.
*/}}
{{- define "zonewise.hasTest" -}}
{{- $may := or .Values.rbac.create .Values.helmTest.serviceAccountName -}}
{{- if and .Values.helmTest.enabled $may (include "zonewise.isCalled" .) }}true{{ end -}}
{{- end -}}

{{- define "zonewise.args" -}}
{{- $fullname := include "zonewise.fullname" . -}}
{{- $namespace := include "zonewise.namespace" . -}}
{{ include "zonewise.decisionArgs" . }}
- --validation={{ include "zonewise.validation" . }}
{{- if and (include "zonewise.validates" .) .Values.controller.enabled }}
- --validating-webhook-configuration={{ include "zonewise.clusterName" . }}
{{- end }}
- --controller={{ .Values.controller.enabled }}
{{- if .Values.controller.enabled }}
- --lease-namespace={{ $namespace }}
- --lease-name={{ $fullname }}
- --owner-deployment={{ $fullname }}
- --webhook-configuration={{ include "zonewise.clusterName" . }}
{{- end }}
{{- if include "zonewise.isSelfManaged" . }}
- --certificate-secret={{ include "zonewise.certificateSecret" . }}
- --certificate-names={{ include "zonewise.dnsName" . }}
- --certificate-lifetime={{ .Values.certificates.selfManaged.certificateLifetime }}
- --ca-lifetime={{ .Values.certificates.selfManaged.caLifetime }}
{{- else }}
- --tls-cert-file=/certificates/tls.crt
- --tls-private-key-file=/certificates/tls.key
{{- end }}
{{- with .Values.clientAuthentication }}
{{- if .caConfigMap }}
- --client-ca-file=/client-ca/{{ .caKey }}
{{- with .subjectNames }}
- {{ printf "--client-subject-names=%s" (join "," .) | quote }}
{{- end }}
{{- end }}
{{- end }}
- --webhook-bind-address={{ .Values.listenAddress }}:{{ int64 .Values.ports.webhook }}
- --metrics-bind-address={{ .Values.listenAddress }}:{{ int64 .Values.ports.metrics }}
- --shutdown-delay-duration={{ int64 .Values.shutdownDelaySeconds }}s
- {{ printf "--log-level=%s" .Values.log.level | quote }}
- --log-format={{ .Values.log.format }}
{{- end -}}

{{- define "zonewise.meshAnnotations" -}}
{{- if .Values.serviceMesh.skipWebhookPort }}
config.linkerd.io/skip-inbound-ports: {{ .Values.ports.webhook | quote }}
traffic.sidecar.istio.io/excludeInboundPorts: {{ .Values.ports.webhook | quote }}
traffic.kuma.io/exclude-inbound-ports: {{ .Values.ports.webhook | quote }}
{{- end }}
{{- end -}}

{{- define "zonewise.podSecurityContext" -}}
{{- $context := .Values.podSecurityContext | default dict | deepCopy -}}
{{- $lowest := min .Values.ports.webhook .Values.ports.metrics -}}
{{- if and (lt (int $lowest) 1024) (not .Values.hostNetwork) -}}
{{- $sysctl := dict "name" "net.ipv4.ip_unprivileged_port_start" "value" (toString $lowest) -}}
{{- $_ := set $context "sysctls" (append ($context.sysctls | default list) $sysctl) -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{- define "zonewise.affinity" -}}
{{- if .Values.affinity -}}
{{- toYaml .Values.affinity -}}
{{- else if .Values.hostNetwork -}}
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "zonewise.selectorLabels" . | nindent 10 }}
{{- end -}}
{{- end -}}

{{- define "zonewise.topologySpreadConstraints" -}}
{{- $selector := dict "matchLabels" (include "zonewise.selectorLabels" . | fromYaml) -}}
{{- $constraints := list -}}
{{- range .Values.topologySpreadConstraints -}}
{{- $constraints = append $constraints (hasKey . "labelSelector" | ternary . (merge (dict "labelSelector" $selector) .)) -}}
{{- end -}}
{{- toYaml $constraints -}}
{{- end -}}

{{/*
How many pods may be away and too many during a rollout. With hostNetwork the old pod goes first: its node has no ports for a second one.
*/}}
{{- define "zonewise.rollingUpdate" -}}
{{- $rollingUpdate := dict "maxUnavailable" (.Values.hostNetwork | ternary 1 0) "maxSurge" (.Values.hostNetwork | ternary 0 1) -}}
{{- range $key, $value := .Values.strategy.rollingUpdate -}}
{{- if ne (toString $value) "" -}}
{{- $_ := set $rollingUpdate $key $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $rollingUpdate -}}
{{- end -}}

{{- define "zonewise.metricsSelector" -}}
{{- .Values.prometheusRule.selector | default (printf "namespace=%q,job=%q" (include "zonewise.namespace" .) (include "zonewise.fullname" .)) -}}
{{- end -}}

{{- define "zonewise.volumes" -}}
{{- if not (include "zonewise.isSelfManaged" .) }}
- name: certificates
  secret:
    secretName: {{ include "zonewise.certificateSecret" . | quote }}
{{- end }}
{{- with .Values.clientAuthentication }}
{{- if .caConfigMap }}
- name: client-ca
  configMap:
    name: {{ .caConfigMap | quote }}
    items:
      - key: {{ .caKey | quote }}
        path: {{ .caKey | quote }}
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "zonewise.volumeMounts" -}}
{{- if not (include "zonewise.isSelfManaged" .) }}
- name: certificates
  mountPath: /certificates
  readOnly: true
{{- end }}
{{- if .Values.clientAuthentication.caConfigMap }}
- name: client-ca
  mountPath: /client-ca
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}
