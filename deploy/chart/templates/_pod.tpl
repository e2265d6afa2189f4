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

{{- define "registrar.mounts" -}}
- {name: config, mountPath: /etc/registrar/config, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- range $name, $file := include "registrar.files" . | fromYaml }}
- {name: file-{{ $name }}, mountPath: /etc/registrar/{{ $name }}, readOnly: true}
{{- end }}
{{- if .Values.snapshots.existingClaim }}
- {name: snapshots, mountPath: /snapshots}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "registrar.volumes" -}}
- name: config
  configMap: {name: {{ include "registrar.fullname" . }}}
- name: tmp
  emptyDir: {}
{{- range $name, $file := include "registrar.files" . | fromYaml }}
- name: file-{{ $name }}
  secret:
    secretName: {{ $file.secret }}
    defaultMode: 0440
    items:
      {{- range $key, $path := $file.items }}
      - {key: {{ $key | quote }}, path: {{ $path }}}
      {{- end }}
{{- end }}
{{- with .Values.snapshots.existingClaim }}
- name: snapshots
  persistentVolumeClaim: {claimName: {{ . }}}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* kubelet has no client certificate, so the pod asks itself only where one is required; then any answer will do. */}}
{{- define "registrar.probe" -}}
{{- if and (eq (include "registrar.hasTls" .root) "true") (eq .root.Values.tls.clientAuth "required") -}}
tcpSocket: {port: http}
{{- else -}}
httpGet: {path: {{ .path }}, port: http, scheme: {{ include "registrar.scheme" .root | upper }}}
{{- end }}
{{- end }}
