{{/*
The files that pods get from Secrets, as YAML: for each folder of /etc/registrar the Secret of its own (existingSecret), or
else the chart's with the contents given in the values.
*/}}
{{- define "registrar.files" -}}
{{- $own := include "registrar.fullname" . }}
{{- $kafka := not (empty .Values.kafka.brokers) }}
{{- if eq (include "registrar.hasTls" .) "true" }}
tls:
  secret: {{ default $own .Values.tls.existingSecret }}
  items: {tls.crt: tls.crt, tls.key: tls.key{{ if ne .Values.tls.clientAuth "none" }}, ca.crt: ca.crt{{ end }}}
  contents: {tls.crt: {{ .Values.tls.certificate | quote }}, tls.key: {{ .Values.tls.key | quote }}{{ if .Values.tls.clientCa }}, ca.crt: {{ .Values.tls.clientCa | quote }}{{ end }}}
  own: {{ empty .Values.tls.existingSecret }}
{{- end }}
{{- range $name := list "users" "rules" "policies" }}
{{- with index $.Values $name }}
{{- if or .existingSecret .content }}
{{ $name }}:
  secret: {{ default $own .existingSecret }}
  items: { {{ ternary $name .key (empty .existingSecret) }}: {{ $name }} }
  contents: { {{ $name }}: {{ .content | quote }} }
  own: {{ empty .existingSecret }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.encoder }}
{{- if or .existingSecret .secret }}
encoder:
  secret: {{ default $own .existingSecret }}
  {{- $old := ternary .oldSecret .oldKey (empty .existingSecret) }}
  items: { {{ ternary "encoder-secret" .key (empty .existingSecret) }}: encoder-secret
    {{- if $old }}, {{ ternary "encoder-old-secret" .oldKey (empty .existingSecret) }}: encoder-old-secret{{ end }} }
  contents: {encoder-secret: {{ .secret | quote }}{{ if $old }}, encoder-old-secret: {{ .oldSecret | quote }}{{ end }}}
  own: {{ empty .existingSecret }}
{{- end }}
{{- end }}
{{- if $kafka }}
{{- with .Values.peer.tls.existingSecret }}
peer-tls:
  secret: {{ . }}
  items: {tls.crt: tls.crt, tls.key: tls.key, ca.crt: ca.crt}
  own: false
{{- end }}
{{- with .Values.peer }}
{{- if not .tls.existingSecret }}
peer:
  secret: {{ default $own .existingSecret }}
  items: { {{ ternary "peer-secret" .key (empty .existingSecret) }}: peer-secret }
  contents: {peer-secret: {{ include "registrar.peerSecret" $ | quote }}}
  own: {{ empty .existingSecret }}
{{- end }}
{{- end }}
{{- with .Values.kafka.tls }}
{{- if .existingSecret }}
kafka-tls:
  secret: {{ .existingSecret }}
  items: {ca.crt: ca.crt{{ if .clientCertificate }}, tls.crt: tls.crt, tls.key: tls.key{{ end }}}
  own: false
{{- end }}
{{- end }}
{{- with .Values.kafka.sasl }}
{{- if or .existingSecret .password }}
kafka-sasl:
  secret: {{ default $own .existingSecret }}
  items: { {{ ternary "kafka-password" .key (empty .existingSecret) }}: password }
  contents: {kafka-password: {{ .password | quote }}}
  own: {{ empty .existingSecret }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The secret given, the one of an earlier installation, or a new one. */}}
{{- define "registrar.peerSecret" -}}
{{- if or .Values.peer.secret .Values.peer.existingSecret }}
{{- .Values.peer.secret }}
{{- else }}
{{- $before := lookup "v1" "Secret" .Release.Namespace (include "registrar.fullname" .) }}
{{- with dig "data" "peer-secret" "" (default dict $before) }}
{{- b64dec . }}
{{- else }}
{{- randAlphaNum 40 }}
{{- end }}
{{- end }}
{{- end }}
