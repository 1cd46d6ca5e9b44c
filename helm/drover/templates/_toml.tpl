{{/*
The policy file from the values. Helm's own toToml is not used: to Helm every number is a float, and drover rightly
refuses "max_waiters_per_key = 10000.0".
*/}}
{{- define "drover.toml" -}}
{{- $policies := .Values.policies -}}
{{- if hasKey $policies "strict_namespaces" }}
strict_namespaces = {{ $policies.strict_namespaces }}
{{- end }}
{{- with $policies.defaults }}

[defaults]
{{- include "drover.toml.fields" . }}
{{- end }}
{{- range $name := keys ($policies.namespaces | default dict) | sortAlpha }}

[namespaces.{{ include "drover.toml.key" $name }}]
{{- include "drover.toml.fields" (get $policies.namespaces $name) }}
{{- end }}
{{- end }}

{{- define "drover.toml.fields" -}}
{{- $jitter := .jitter | default dict -}}
{{- if and (hasKey $jitter "ratio") (hasKey $jitter "spread") -}}
{{- fail "\n\nA jitter in policies has both ratio and spread. Remove one of them.\n" -}}
{{- end -}}
{{- range $name := keys . | sortAlpha }}
{{ $name }} = {{ include "drover.toml.value" (get $ $name) }}
{{- end }}
{{- end }}

{{/* A name with a dot needs quotes. */}}
{{- define "drover.toml.key" -}}
{{- ternary . (quote .) (regexMatch "^[A-Za-z0-9_-]+$" .) -}}
{{- end }}

{{/* What JSON writes as a string is a string of TOML too. */}}
{{- define "drover.toml.value" -}}
{{- if kindIs "map" . -}}
{{- $pairs := list -}}
{{- range $name := keys . | sortAlpha -}}
{{- $pairs = append $pairs (printf "%s = %s" $name (include "drover.toml.value" (get $ $name))) -}}
{{- end -}}
{ {{ join ", " $pairs }} }
{{- else if kindIs "string" . -}}
{{ toJson . }}
{{- else if kindIs "bool" . -}}
{{ . }}
{{- else if eq (float64 .) (floor .) -}}
{{ int64 . }}
{{- else -}}
{{ . }}
{{- end -}}
{{- end }}
