{{/* The parts that nodes and builders of snapshots have in common. */}}
{{/* OpenShift gives each namespace its own range of users and groups, and its restricted SCC refuses all others. */}}
{{- define "registrar.podSecurity" -}}
{{- $onOpenShift := eq (toString .Values.openshift) "true" }}
{{- if eq (toString .Values.openshift) "auto" }}{{ $onOpenShift = .Capabilities.APIVersions.Has "security.openshift.io/v1" }}{{ end }}
{{- ternary (omit .Values.podSecurityContext "runAsUser" "runAsGroup" "fsGroup") .Values.podSecurityContext $onOpenShift | toYaml }}
{{- end }}

{{/* Without the image's own settings, which would win over registrar.toml. */}}
{{- define "registrar.command" -}}
env, -u, REGISTRAR_LISTEN, -u, REGISTRAR_DATA, -u, REGISTRAR_LOG_FORMAT
{{- end }}

{{/* The files of a pod, as in registrar.files: a builder of snapshots needs only those of Kafka. */}}
{{- define "registrar.filesOf" -}}
{{- $files := include "registrar.files" .root | fromYaml }}
{{- ternary (pick $files "kafka-tls" "kafka-sasl") $files (eq .of "builder") | toYaml }}
{{- end }}

{{/* Takes the root, and whether it is for a "node" or a "builder" of snapshots. */}}
{{- define "registrar.mounts" -}}
- {name: config, mountPath: /etc/registrar/config, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- range $name, $file := include "registrar.filesOf" . | fromYaml }}
- {name: file-{{ $name }}, mountPath: /etc/registrar/{{ $name }}, readOnly: true}
{{- end }}
{{- if .root.Values.snapshots.existingClaim }}
- {name: snapshots, mountPath: /snapshots}
{{- end }}
{{- with .root.Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "registrar.volumes" -}}
- name: config
  configMap:
    name: {{ include "registrar.fullname" .root }}
    items: [{key: {{ ternary "snapshots" "registrar" (eq .of "builder") }}.toml, path: registrar.toml}]
- name: tmp
  emptyDir: {}
{{- range $name, $file := include "registrar.filesOf" . | fromYaml }}
- name: file-{{ $name }}
  secret:
    secretName: {{ $file.secret }}
    defaultMode: 0440
    items:
      {{- range $key, $path := $file.items }}
      - {key: {{ $key | quote }}, path: {{ $path }}}
      {{- end }}
{{- end }}
{{- with .root.Values.snapshots.existingClaim }}
- name: snapshots
  persistentVolumeClaim: {claimName: {{ . }}}
{{- end }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* True if every client of the port needs a certificate, which kubelet does not have. */}}
{{- define "registrar.requiresCertificates" -}}
{{- and (eq (include "registrar.hasTls" .) "true") (eq .Values.tls.clientAuth "required") }}
{{- end }}

{{/* Where certificates are required, the pod asks itself over loopback: `check` of `registrar health`. */}}
{{- define "registrar.probe" -}}
{{- if eq (include "registrar.requiresCertificates" .root) "true" -}}
exec: {command: [{{ include "registrar.command" . }}, registrar, health, --check, {{ .check }}, --config, /etc/registrar/config/registrar.toml]}
{{- else -}}
httpGet: {path: /health/{{ .check }}, port: http, scheme: {{ include "registrar.scheme" .root | upper }}}
{{- end }}
{{- end }}
