{{/* Labels of an object: ekiden.labels (list $ "component"). An object of no component passes "". */}}
{{- define "ekiden.labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: ekiden
app.kubernetes.io/part-of: ekiden
{{- with index . 1 }}
app.kubernetes.io/component: {{ . }}
{{- end }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Name of an image: ekiden.image (list $ image). */}}
{{- define "ekiden.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Name of the image of manager or segment: ekiden.ownImage (list $ "manager"). There is none that could be a default. */}}
{{- define "ekiden.ownImage" -}}
{{- $root := index . 0 -}}
{{- $image := (index $root.Values (index . 1)).image -}}
{{- $none := printf "There is no image of the %s: no images are published yet. Build them with `make images`, push them to a registry of yours, and set %s.image.repository to the name there" (index . 1) (index . 1) -}}
{{- $_ := required $none $image.repository -}}
{{- include "ekiden.image" (list $root $image) -}}
{{- end }}

{{/* What a container of the manager's image may do: nothing beyond restricted Pod Security. */}}
{{- define "ekiden.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* As whom a pod runs: ekiden.podSecurityContext uid. */}}
{{- define "ekiden.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Where the pods of the manager's image may run: Deployment and Jobs alike. */}}
{{- define "ekiden.placement" -}}
{{- with .Values.manager.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.manager.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.manager.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.manager.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{/* The volume with the DSN of Postgres. */}}
{{- define "ekiden.postgresVolume" -}}
name: postgres
secret:
  secretName: {{ include "ekiden.postgresSecret" . | quote }}
  defaultMode: 0440
  items:
  - key: {{ if .Values.postgres.trial.enabled }}dsn{{ else }}{{ .Values.postgres.dsnSecret.key | quote }}{{ end }}
    path: dsn
{{- end }}

{{- define "ekiden.postgresSecret" -}}
{{- if .Values.postgres.trial.enabled -}}
ekiden-trial-postgres
{{- else -}}
{{- required "There is no Postgres. Set postgres.dsnSecret.name to a Secret that holds the DSN of one, or postgres.trial.enabled to try Ekiden out" .Values.postgres.dsnSecret.name -}}
{{- end -}}
{{- end }}

{{/* The defaults of pods that are set, in the form of spec.pods of an AgentPolicy, or nothing. */}}
{{- define "ekiden.podDefaults" -}}
{{- $set := dict -}}
{{- range $name, $value := .Values.segment.pods -}}
{{- if $value }}{{ $_ := set $set $name $value }}{{ end -}}
{{- end -}}
{{- if $set }}{{ toYaml $set }}{{ end -}}
{{- end }}
