{{/* Names. The longest that is made of fullname is fullname-headless, and a Service's name has at most 63 characters. */}}
{{- define "drover.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 54 | trimSuffix "-" -}}
{{- end }}

{{- define "drover.fullname" -}}
{{- $name := include "drover.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 54 | trimSuffix "-" -}}
{{- end }}

{{- define "drover.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "drover.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end }}

{{- define "drover.selector" -}}
app.kubernetes.io/name: {{ include "drover.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "drover.labels" -}}
{{ include "drover.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | trimAll "-._" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end }}
