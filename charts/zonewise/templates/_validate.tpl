{{/*
What values.schema.json can't put in a sentence. Each check is a template that prints its sentences, one a line, or nothing. Forms come
first: the other checks compare what has the right one.
*/}}
{{- define "zonewise.validate" -}}
{{- include "zonewise.refuse" (list "These values can't be read" (include "zonewise.validate.forms" .)) -}}
{{- $said := "" -}}
{{- range list "failurePolicy" "ports" "certificates" "clientAuthentication" "lifetimes" "arguments" "environment" "volumes" "shutdown" "strategy" "scraping" "hostNetwork" "ipFamilies" "serviceAccount" "pullSecrets" "dns" "alerts" -}}
{{- $said = printf "%s\n%s" $said (include (printf "zonewise.validate.%s" .) $) -}}
{{- end -}}
{{- include "zonewise.refuse" (list "These values don't go together" $said) -}}
{{- end -}}

{{/*
Fails if there are sentences. Takes a heading and the sentences, one a line.
*/}}
{{- define "zonewise.refuse" -}}
{{- $problems := list -}}
{{- range index . 1 | splitList "\n" -}}
{{- with trim . -}}
{{- $problems = append $problems (printf "- %s" .) -}}
{{- end -}}
{{- end -}}
{{- if $problems -}}
{{- fail (printf "\n\n%s:\n%s\n" (index . 0) (join "\n" $problems)) -}}
{{- end -}}
{{- end -}}

{{- define "zonewise.validate.forms" -}}
{{- range .Files.Get "files/forms.yaml" | fromYamlArray -}}
{{- $form := . -}}
{{- range $name := .values -}}
{{- $found := $.Values -}}
{{- range splitList "." $name -}}
{{- $found = get $found . -}}
{{- end -}}
{{- $isList := kindIs "slice" $found -}}
{{- range $isList | ternary $found (list $found) -}}
{{- $left := and $form.numbers (not (kindIs "string" .)) -}}
{{- $text := include "zonewise.decimal" . -}}
{{- if not (or $left (regexMatch $form.form $text)) }}
{{ $name }} {{ $isList | ternary "has" "is" }} {{ $text | trunc 60 | printf "%q" }}: {{ $form.do }}
{{- end }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "zonewise.validate.failurePolicy" -}}
{{- if ne .Values.webhook.failurePolicy "Ignore" }}
webhook.failurePolicy is {{ .Values.webhook.failurePolicy }}: it must be Ignore, or no EndpointSlice of the cluster could be written while zonewise is away, not even the API server's own.
{{- end }}
{{- end -}}

{{- define "zonewise.validate.ports" -}}
{{- with .Values.ports }}
{{- if eq (int .webhook) (int .metrics) }}
ports.webhook and ports.metrics are both {{ .webhook }}: give each its own.
{{- end }}
{{- if and $.Values.hostNetwork (lt (int (min .webhook .metrics)) 1024) }}
ports.webhook or ports.metrics is below 1024 with hostNetwork: only root may open it on a node; set both to ports from 1024 on.
{{- end }}
{{- end }}
{{- with .Values.service }}
{{- if eq (int .port) (int .metricsPort) }}
service.port and service.metricsPort are both {{ .port }}: give each its own.
{{- end }}
{{- end }}
{{- end -}}

{{/*
Which values have annotations for the webhook configuration by which somebody injects a CA, cert-manager.io/inject-ca-from and the like
or OpenShift's service.beta.openshift.io/inject-cabundle, in words.
*/}}
{{- define "zonewise.injectors" -}}
{{- $said := list -}}
{{- range $name, $annotations := dict "webhook.annotations" .Values.webhook.annotations "commonAnnotations" .Values.commonAnnotations -}}
{{- $injectors := list -}}
{{- range $key, $_ := $annotations -}}
{{- if regexMatch "inject-[a-z-]*ca" $key -}}
{{- $injectors = append $injectors $key -}}
{{- end -}}
{{- end -}}
{{- if $injectors -}}
{{- $said = append $said (printf "%s has %s" $name (join ", " $injectors)) -}}
{{- end -}}
{{- end -}}
{{- join " and " $said -}}
{{- end -}}

{{- define "zonewise.validate.certificates" -}}
{{- $mode := .Values.certificates.mode -}}
{{- $provided := .Values.certificates.provided -}}
{{- $injectors := include "zonewise.injectors" . -}}
{{- if eq $mode "provided" }}
{{- if not $provided.secretName }}
certificates.mode is provided, but certificates.provided.secretName is empty: name the Secret with tls.crt and tls.key.
{{- end }}
{{- if and (not $provided.caBundle) (not $injectors) (include "zonewise.isCalled" .) }}
certificates.mode is provided, but certificates.provided.caBundle is empty and webhook.annotations has nothing that would inject it, such as cert-manager.io/inject-ca-from-secret: the API server would trust no certificate. Use --set-file certificates.provided.caBundle=ca.crt.
{{- end }}
{{- if and $provided.caBundle $injectors }}
certificates.provided.caBundle is set, and {{ $injectors }}, which would inject another: leave one of them out.
{{- end }}
{{- else if or $provided.secretName $provided.caBundle }}
certificates.provided is set, but certificates.mode is {{ $mode }}: set certificates.mode=provided, or leave certificates.provided empty.
{{- end }}
{{- if and (eq $mode "self-managed") $injectors }}
{{ $injectors }}, but certificates.mode is self-managed: zonewise and the injector would put in their CA bundles by turns. Take the annotation away, or set certificates.mode=provided.
{{- end }}
{{- if and (eq $mode "cert-manager") $injectors }}
{{ $injectors }}, but certificates.mode is cert-manager, which has its own CA injected: take the annotation away, or set certificates.mode=provided.
{{- end }}
{{- if and (eq $mode "self-managed") (not .Values.controller.enabled) }}
controller.enabled is false, but certificates.mode is self-managed: the replica that leads makes the certificates. Set controller.enabled=true, or certificates.mode to cert-manager or provided.
{{- end }}
{{- with .Values.certificates.certManager.issuerRef }}
{{- if ne $mode "cert-manager" }}
certificates.certManager.issuerRef is set, but certificates.mode is {{ $mode }}: set certificates.mode=cert-manager, or leave certificates.certManager.issuerRef empty.
{{- end }}
{{- if not .name }}
certificates.certManager.issuerRef has no name: set certificates.certManager.issuerRef.name to that of your Issuer or ClusterIssuer.
{{- end }}
{{- end }}
{{- end -}}

{{- define "zonewise.validate.clientAuthentication" -}}
{{- with .Values.clientAuthentication }}
{{- if and .subjectNames (not .caConfigMap) }}
clientAuthentication.subjectNames is set without clientAuthentication.caConfigMap: names mean nothing without a CA that vouches for them. Name the ConfigMap with that CA, or leave clientAuthentication.subjectNames empty.
{{- end }}
{{- end }}
{{- end -}}

{{- define "zonewise.hours" -}}
{{- trimSuffix "h" . -}}
{{- end -}}

{{/*
What to do about a CA's lifetime that is less than twice the other. Takes both names and the other's value; the longest there is are 100 years.
*/}}
{{- define "zonewise.makeTwice" -}}
{{- $twice := include "zonewise.hours" (index . 2) | int | mul 2 -}}
{{- if gt (int $twice) 876000 -}}
Set {{ index . 1 }} to 438000h or less.
{{- else -}}
Set {{ index . 0 }} to {{ $twice }}h or more.
{{- end -}}
{{- end -}}

{{- define "zonewise.validate.lifetimes" -}}
{{- with .Values.certificates.selfManaged }}
{{- if lt (include "zonewise.hours" .caLifetime | int) (include "zonewise.hours" .certificateLifetime | int | mul 2 | int) }}
certificates.selfManaged.caLifetime ({{ .caLifetime }}) is less than twice certificates.selfManaged.certificateLifetime ({{ .certificateLifetime }}): a server certificate never outlives its CA. {{ include "zonewise.makeTwice" (list "certificates.selfManaged.caLifetime" "certificates.selfManaged.certificateLifetime" .certificateLifetime) }}
{{- end }}
{{- end }}
{{- with .Values.certificates.certManager }}
{{- if ge (include "zonewise.hours" .renewBefore | int) (include "zonewise.hours" .duration | int) }}
certificates.certManager.renewBefore ({{ .renewBefore }}) is not less than certificates.certManager.duration ({{ .duration }}). Set it to less, such as a third of that.
{{- end }}
{{- if lt (include "zonewise.hours" .caDuration | int) (include "zonewise.hours" .duration | int | mul 2 | int) }}
certificates.certManager.caDuration ({{ .caDuration }}) is less than twice certificates.certManager.duration ({{ .duration }}). {{ include "zonewise.makeTwice" (list "certificates.certManager.caDuration" "certificates.certManager.duration" .duration) }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "zonewise.reservedFlags" -}}
{{- $flags := list "--tls-cert-file" "--tls-private-key-file" "--certificate-secret" "--certificate-names" "--certificate-lifetime" "--ca-lifetime" "--client-ca-file" "--client-subject-names" "--owner-deployment" "--lease-namespace" "--lease-name" "--webhook-configuration" "--validating-webhook-configuration" "--replica-name" "--kubeconfig" "--context" "--from-files" "--panic-on-service" "--watch-life-seconds" "--ignored-slice-managers" "--capacity-node-selector" "--honor-traffic-distribution" "--default-heuristic" -}}
{{- range include "zonewise.args" . | fromYamlArray -}}
{{- $flags = append $flags (splitList "=" . | first) -}}
{{- end -}}
{{- $flags | uniq | toJson -}}
{{- end -}}

{{/*
What to do about a flag that the chart sets.
*/}}
{{- define "zonewise.inPlaceOf" -}}
{{- $flag := trimPrefix "--" . -}}
{{- $values := dict "validation" "validation.mode" "controller" "controller.enabled" "certificate-lifetime" "certificates.selfManaged.certificateLifetime" "ca-lifetime" "certificates.selfManaged.caLifetime" "certificate-secret" "certificates.mode" "tls-cert-file" "certificates.mode and certificates.provided" "tls-private-key-file" "certificates.mode and certificates.provided" "certificate-names" "fullnameOverride" "client-ca-file" "clientAuthentication.caConfigMap" "client-subject-names" "clientAuthentication.subjectNames" "webhook-bind-address" "listenAddress and ports.webhook" "metrics-bind-address" "listenAddress and ports.metrics" "shutdown-delay-duration" "shutdownDelaySeconds" "log-level" "log.level" "log-format" "log.format" "honor-traffic-distribution" "trafficDistribution" "default-heuristic" "trafficDistribution" -}}
{{- range list "mode" "traffic-distribution" "default-mode" "overload-threshold" "node-grace" "freeze-not-ready" "excluded-node-labels" "ignored-slice-managers" "capacity" "capacity-node-selector" "node-info-tolerance" -}}
{{- $_ := set $values . (camelcase . | untitle) -}}
{{- end -}}
{{- with get $values $flag -}}
which the chart sets: set {{ . }} in its place.
{{- else -}}
which the chart sets or which has no place in a pod: take it out.
{{- end -}}
{{- end -}}

{{- define "zonewise.validate.arguments" -}}
{{- $reserved := include "zonewise.reservedFlags" . | fromJsonArray -}}
{{- $known := .Files.Get "files/flags.yaml" | fromYamlArray -}}
{{- $seen := list -}}
{{- range .Values.extraArgs }}
{{- $flag := splitList "=" . | first }}
{{- if not (or (has $flag $known) (has $flag $reserved)) }}
extraArgs has {{ $flag }}, which is no flag of this version: take it out, or see docs/serving.md for how it is written.
{{- end }}
{{- if has $flag $reserved }}
extraArgs has {{ $flag }}, {{ include "zonewise.inPlaceOf" $flag }}
{{- end }}
{{- if has $flag $seen }}
extraArgs has {{ $flag }} twice: leave one of them out.
{{- end }}
{{- $seen = append $seen $flag }}
{{- end }}
{{- end -}}

{{- define "zonewise.validate.environment" -}}
{{- $reserved := include "zonewise.reservedFlags" . | fromJsonArray -}}
{{- range .Values.extraEnv }}
{{- if not (regexMatch "^\\S+$" .name) }}
extraEnv has {{ printf "%q" .name }}: give each variable a name without spaces.
{{- end }}
{{- $flag := printf "--%s" (.name | trimPrefix "ZONEWISE_" | lower | replace "_" "-") }}
{{- if and (hasPrefix "ZONEWISE_" .name) (has $flag $reserved) }}
extraEnv has {{ .name }}, {{ include "zonewise.inPlaceOf" $flag }}
{{- end }}
{{- if hasPrefix "ZONEWISE_KEEP_" .name }}
extraEnv has {{ .name }}: give {{ $flag }} in extraArgs, by which the helm test goes, too.
{{- end }}
{{- end }}
{{- end -}}

{{- define "zonewise.validate.volumes" -}}
{{- $seen := list -}}
{{- range .Values.extraVolumes }}
{{- if has .name $seen }}
extraVolumes has {{ .name }} twice: give each volume its own name.
{{- end }}
{{- $seen = append $seen .name }}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" .name) }}
extraVolumes has {{ printf "%q" .name }}: give each volume a name of lower-case letters, digits and dashes.
{{- end }}
{{- if has .name (list "certificates" "client-ca") }}
extraVolumes has {{ .name }}, a name that the chart uses: choose another.
{{- end }}
{{- end }}
{{- end -}}

{{- define "zonewise.validate.shutdown" -}}
{{- $least := add (int .Values.shutdownDelaySeconds) 11 -}}
{{- if lt (int .Values.terminationGracePeriodSeconds) (int $least) }}
terminationGracePeriodSeconds ({{ .Values.terminationGracePeriodSeconds }}) is not more than shutdownDelaySeconds ({{ .Values.shutdownDelaySeconds }}) and the 10 seconds that a request may take: the pod would be killed while it answers. Set terminationGracePeriodSeconds to {{ $least }} or more.
{{- end }}
{{- end -}}

{{- define "zonewise.validate.strategy" -}}
{{- $zero := list "0" "0%" -}}
{{- with include "zonewise.rollingUpdate" . | fromYaml }}
{{- if and (eq $.Values.strategy.type "RollingUpdate") (has (toString .maxUnavailable) $zero) (has (toString .maxSurge) $zero) }}
strategy.rollingUpdate.maxUnavailable and strategy.rollingUpdate.maxSurge are both 0: no pod could ever be replaced. Set one of them to 1 or more.{{ if $.Values.hostNetwork }} With hostNetwork maxSurge is 0 unless you set it.{{ end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "zonewise.seconds" -}}
{{- $unit := regexFind "[smh]$" . -}}
{{- mul (trimSuffix $unit . | int) (get (dict "s" 1 "m" 60 "h" 3600) $unit) -}}
{{- end -}}

{{- define "zonewise.validate.scraping" -}}
{{- with .Values.serviceMonitor }}
{{- if gt (include "zonewise.seconds" .scrapeTimeout | int) (include "zonewise.seconds" .interval | int) }}
serviceMonitor.scrapeTimeout ({{ .scrapeTimeout }}) is more than serviceMonitor.interval ({{ .interval }}): Prometheus refuses that. Set it to {{ .interval }} or less.
{{- end }}
{{- end }}
{{- end -}}

{{- define "zonewise.validate.hostNetwork" -}}
{{- if and .Values.hostNetwork .Values.networkPolicy.enabled }}
networkPolicy.enabled has no effect on pods with hostNetwork: set networkPolicy.enabled=false.
{{- end }}
{{- end -}}

{{- define "zonewise.validate.ipFamilies" -}}
{{- with .Values.service }}
{{- if and (gt (len .ipFamilies) 1) (has .ipFamilyPolicy (list "" "SingleStack")) }}
service.ipFamilies names two families: set service.ipFamilyPolicy to PreferDualStack or RequireDualStack.
{{- end }}
{{- end }}
{{- end -}}

{{- define "zonewise.validate.serviceAccount" -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
serviceAccount.create is false and serviceAccount.name is empty: name the ServiceAccount to use.
{{- end }}
{{- end -}}

{{- define "zonewise.validate.pullSecrets" -}}
{{- with (.Values.global).imagePullSecrets }}
{{- if not (kindIs "slice" .) }}
global.imagePullSecrets is {{ toString . | trunc 60 | printf "%q" }}: set it to a list of names of Secrets.
{{- end }}
{{- end }}
{{- end -}}

{{- define "zonewise.validate.dns" -}}
{{- if and (eq .Values.dnsPolicy "None") (not .Values.dnsConfig.nameservers) }}
dnsPolicy is None, but dnsConfig.nameservers is empty: name the servers, or choose another dnsPolicy.
{{- end }}
{{- end -}}

{{- define "zonewise.validate.alerts" -}}
{{- if .Values.prometheusRule.enabled }}
{{- $names := list -}}
{{- range .Files.Get "files/alerts.yaml" | fromYamlArray -}}
{{- $names = append $names .alert -}}
{{- end -}}
{{- range .Values.prometheusRule.disabled }}
{{- if not (has . $names) }}
prometheusRule.disabled has {{ . }}, which is no alert of this chart: there are {{ join ", " $names }}.
{{- end }}
{{- end }}
{{- if not (has "ZonewiseCertificateExpiresSoon" .Values.prometheusRule.disabled) }}
{{- $hours := int .Values.prometheusRule.certificateExpiryHours -}}
{{- $lifetime := .Values.certificates.selfManaged.certificateLifetime -}}
{{- if and (include "zonewise.isSelfManaged" .) (ge (mul 3 $hours) (include "zonewise.hours" $lifetime | int64)) }}
prometheusRule.certificateExpiryHours ({{ $hours }}) is not less than a third of certificates.selfManaged.certificateLifetime ({{ $lifetime }}): the alert would go off before each renewal. Set it to less, or add ZonewiseCertificateExpiresSoon to prometheusRule.disabled.
{{- end }}
{{- $certManager := .Values.certificates.certManager -}}
{{- if and (eq .Values.certificates.mode "cert-manager") (ge $hours (include "zonewise.hours" $certManager.renewBefore | int)) }}
prometheusRule.certificateExpiryHours ({{ $hours }}) is not less than certificates.certManager.renewBefore ({{ $certManager.renewBefore }}): the alert would go off before each renewal. Set it to less, or add ZonewiseCertificateExpiresSoon to prometheusRule.disabled.
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
