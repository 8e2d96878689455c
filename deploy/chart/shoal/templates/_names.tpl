{{- define "shoal.name" -}}
{{- if contains "shoal" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-shoal" (.Release.Name | trunc 34 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* The names of the hub's Service, the shortest first, one a line. */}}
{{- define "shoal.hubNames" -}}
{{- $name := printf "%s-hub" (include "shoal.name" .) -}}
{{ $name }}
{{ $name }}.{{ .Release.Namespace }}
{{ $name }}.{{ .Release.Namespace }}.svc
{{ $name }}.{{ .Release.Namespace }}.svc.{{ .Values.hub.clusterDomain }}
{{- end -}}

{{/* The workers that join by themselves, comma-separated: those without a Secret of their own. */}}
{{- define "shoal.joining" -}}
{{- $names := list -}}
{{- range .Values.workers -}}
{{- if not .hubSecret -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- end -}}
{{- join "," $names -}}
{{- end -}}

{{/* The Secret in which the hub keeps the join token. Call with (dict "root" $ "worker" "far"). */}}
{{- define "shoal.joinSecret" -}}
{{ include "shoal.name" .root }}-worker-{{ .worker }}-join
{{- end -}}

{{- define "shoal.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (.Chart.AppVersion | replace "+" "_") }}
{{- end -}}

{{/* The labels that select pods, which must not change in a release. Call with (dict "root" $ "part" "hub"). */}}
{{- define "shoal.selector" -}}
app.kubernetes.io/name: shoal-{{ .part }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- with .worker }}
shoal.dev/worker: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Without versions, so that a new version of the chart alone restarts no pod. */}}
{{- define "shoal.podLabels" -}}
{{ include "shoal.selector" . }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "shoal.labels" -}}
{{ include "shoal.podLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The user and the scheduling of a pod. */}}
{{- define "shoal.pod" -}}
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "shoal.container" -}}
image: {{ include "shoal.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop:
    - ALL
{{- end -}}

{{/* The port and the probes of a server: the hub and the workers. */}}
{{- define "shoal.serving" -}}
ports:
- name: api
  containerPort: {{ . }}
  protocol: TCP
startupProbe:
  httpGet: {path: /readyz, port: api, scheme: HTTPS}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 150
readinessProbe:
  httpGet: {path: /readyz, port: api, scheme: HTTPS}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
livenessProbe:
  httpGet: {path: /livez, port: api, scheme: HTTPS}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}
