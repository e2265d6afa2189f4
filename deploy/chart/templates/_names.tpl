{{- define "registrar.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "registrar.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- $name := include "registrar.name" . }}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "registrar.peers" -}}
{{ include "registrar.fullname" . }}-peers
{{- end }}

{{- define "registrar.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "registrar.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "registrar.selector" -}}
app.kubernetes.io/name: {{ include "registrar.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "registrar.labels" -}}
{{ include "registrar.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "registrar.image" -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}

{{/* The variant with Spark is another image, with a digest of its own. */}}
{{- define "registrar.builderImage" -}}
{{- if eq .Values.snapshots.engine "local" }}
{{- include "registrar.image" . }}
{{- else if .Values.snapshots.imageDigest }}
{{- .Values.image.repository }}@{{ .Values.snapshots.imageDigest }}
{{- else if .Values.image.digest }}
{{- fail "image.digest is that of the image without Spark: set snapshots.imageDigest too, or snapshots.engine to local" }}
{{- else }}
{{- include "registrar.image" . }}{{ .Values.snapshots.imageTagSuffix }}
{{- end }}
{{- end }}

{{- define "registrar.replicas" -}}
{{ ternary .Values.replicas 1 (not (empty .Values.kafka.brokers)) }}
{{- end }}

{{- define "registrar.scheme" -}}
{{ ternary "https" "http" (eq (include "registrar.hasTls" .) "true") }}
{{- end }}

{{- define "registrar.hasTls" -}}
{{ or (not (empty .Values.tls.existingSecret)) (not (empty .Values.tls.certificate)) }}
{{- end }}

{{/* The CronJob is there if snapshots have a place that other pods reach, and a log that they can read. */}}
{{- define "registrar.builds" -}}
{{ and (not (empty .Values.kafka.brokers)) (not (empty .Values.snapshots.location)) (not (empty .Values.snapshots.schedule)) }}
{{- end }}

{{- define "registrar.submits" -}}
{{ and (ne .Values.snapshots.engine "local") (not (hasPrefix "local" .Values.snapshots.spark.master)) }}
{{- end }}
