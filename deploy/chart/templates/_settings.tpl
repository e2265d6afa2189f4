{{/* The settings of a node, as JSON: the chart's, then those of the values, which win. */}}
{{- define "registrar.allSettings" -}}
{{- $files := include "registrar.files" . | fromYaml }}
{{- $at := "/etc/registrar" }}
{{- $chosen := dict "data" "/data" "log_format" "json" }}
{{- if hasKey $files "tls" }}
  {{- $listeners := printf "https://0.0.0.0:%d" (int .Values.ports.http) }}
  {{- if eq (include "registrar.requiresCertificates" .) "false" }}
    {{- $_ := set $chosen "listeners" $listeners }}
  {{- else }}
    {{- $_ := set $chosen "listeners" (printf "%s,http://127.0.0.1:%d" $listeners (int .Values.ports.probes)) }}
  {{- end }}
  {{- $_ := set $chosen "tls_certificate" (printf "%s/tls/tls.crt" $at) }}
  {{- $_ := set $chosen "tls_key" (printf "%s/tls/tls.key" $at) }}
  {{- if ne .Values.tls.clientAuth "none" }}
    {{- $_ := set $chosen "tls_client_auth" .Values.tls.clientAuth }}
    {{- $_ := set $chosen "tls_client_ca" (printf "%s/tls/ca.crt" $at) }}
  {{- end }}
{{- else }}
  {{- $_ := set $chosen "listen" (printf "0.0.0.0:%d" (int .Values.ports.http)) }}
{{- end }}
{{- range $name := list "users" "rules" "policies" }}
  {{- if hasKey $files $name }}{{ $_ := set $chosen $name (printf "%s/%s/%s" $at $name $name) }}{{ end }}
{{- end }}
{{- if hasKey $files "encoder" }}
  {{- $_ := set $chosen "metadata_encoder_secret_file" (printf "%s/encoder/encoder-secret" $at) }}
  {{- if has "encoder-old-secret" (values $files.encoder.items) }}
    {{- $_ := set $chosen "metadata_encoder_old_secret_file" (printf "%s/encoder/encoder-old-secret" $at) }}
  {{- end }}
{{- end }}
{{- with .Values.snapshots.location }}{{ $_ := set $chosen "snapshots" . }}{{ end }}
{{- if eq (include "registrar.builds" .) "true" }}
  {{- if .Values.snapshots.nodesBuildAfter }}
    {{- $_ := set $chosen "snapshots_builder" "local" }}
    {{- $_ := set $chosen "snapshots_every" .Values.snapshots.nodesBuildAfter }}
  {{- else }}
    {{- $_ := set $chosen "snapshots_builder" "none" }}
  {{- end }}
{{- end }}
{{- with .Values.kafka.brokers }}
  {{- $_ := set $chosen "kafka" . }}
  {{- $_ := set $chosen "peer_listen" (printf "0.0.0.0:%d" (int $.Values.ports.peer)) }}
  {{- with $.Values.kafka.securityProtocol }}{{ $_ := set $chosen "kafka_security_protocol" . }}{{ end }}
  {{- if hasKey $files "peer" }}{{ $_ := set $chosen "peer_secret_file" (printf "%s/peer/peer-secret" $at) }}{{ end }}
  {{- if hasKey $files "peer-tls" }}
    {{- $_ := set $chosen "peer_tls_certificate" (printf "%s/peer-tls/tls.crt" $at) }}
    {{- $_ := set $chosen "peer_tls_key" (printf "%s/peer-tls/tls.key" $at) }}
    {{- $_ := set $chosen "peer_tls_ca" (printf "%s/peer-tls/ca.crt" $at) }}
  {{- end }}
  {{- if hasKey $files "kafka-tls" }}
    {{- $_ := set $chosen "kafka_ssl_ca_location" (printf "%s/kafka-tls/ca.crt" $at) }}
    {{- if $.Values.kafka.tls.clientCertificate }}
      {{- $_ := set $chosen "kafka_ssl_certificate_location" (printf "%s/kafka-tls/tls.crt" $at) }}
      {{- $_ := set $chosen "kafka_ssl_key_location" (printf "%s/kafka-tls/tls.key" $at) }}
    {{- end }}
  {{- end }}
  {{- if hasKey $files "kafka-sasl" }}
    {{- $_ := set $chosen "kafka_sasl_password_file" (printf "%s/kafka-sasl/password" $at) }}
  {{- end }}
{{- end }}
{{- merge (deepCopy .Values.settings) $chosen | toJson }}
{{- end }}

{{/* The settings of a node, as lines of registrar.toml. */}}
{{- define "registrar.settings" -}}
{{- $all := include "registrar.allSettings" . | fromJson }}
{{- range $name := keys $all | sortAlpha }}
{{ $name }} = {{ index $all $name | toJson }}
{{- end }}
{{- end }}

{{/* The settings of a build of snapshots: how it reads the log, and what it writes. */}}
{{- define "registrar.builderSettings" -}}
{{- $all := include "registrar.allSettings" . | fromJson }}
{{- range $name := keys $all | sortAlpha }}
{{- if or (regexMatch "^(kafka|snapshots|log)(_|$)" $name) (has $name (list
  "data" "topic" "group" "replication_factor" "fencing" "allow_delete_policy" "metadata_encoder_topic" "record_bytes_max"
  "store_map_bytes" "min_compaction_lag_s" "tombstone_retention_s" "request_timeout_s" "session_timeout_s")) }}
{{ $name }} = {{ index $all $name | toJson }}
{{- end }}
{{- end }}
{{- end }}
