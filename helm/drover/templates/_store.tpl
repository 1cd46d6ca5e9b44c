{{/* What contradicts itself is refused here, in words; values.schema.json has seen to the rest. */}}
{{- define "drover.store.check" -}}
{{- $store := .Values.store -}}
{{- $shared := or $store.url $store.existingSecret.name -}}
{{- if eq $store.kind "memory" -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- fail (printf "\n\nreplicas is %d, but with store.kind memory each replica would decide for itself and every key be rebuilt by each of them.\nSet replicas to 1, or store.kind to redis and store.url to where Redis is.\n" (int .Values.replicas)) -}}
{{- end -}}
{{- if $shared -}}
{{- fail "\n\nstore.kind is memory, but store.url or store.existingSecret.name says where Redis is.\nRemove it, or set store.kind to redis.\n" -}}
{{- end -}}
{{- else -}}
{{- if not $shared -}}
{{- fail "\n\nWhere is Redis? Set one of\n  store.url                   such as redis://redis:6379; the chart keeps it in a Secret\n  store.existingSecret.name   a Secret that holds the URL under the key store.existingSecret.key\nTo try drover without Redis: store.kind=memory and replicas=1.\n" -}}
{{- end -}}
{{- if and $store.url $store.existingSecret.name -}}
{{- fail "\n\nstore.url and store.existingSecret.name both say where Redis is. Remove one of them.\n" -}}
{{- end -}}
{{- /* Not by the schema: its message would show the URL, and that may hold a password. */ -}}
{{- if and $store.url (not (regexMatch "^rediss?([+](sentinel|cluster))?://[^\\s]+$" $store.url)) -}}
{{- fail "\n\nstore.url is not the URL of a Redis. Write it like redis://HOST:6379, redis+sentinel://HOST:26379,…/MASTER or\nredis+cluster://HOST:6379,…, with rediss in place of redis for TLS.\n" -}}
{{- end -}}
{{- if and $store.ca.secretName $store.ca.configMapName -}}
{{- fail "\n\nstore.ca.secretName and store.ca.configMapName both say where the CA is. Remove one of them.\n" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "drover.store.secret" -}}
{{- .Values.store.existingSecret.name | default (printf "%s-store" (include "drover.fullname" .)) -}}
{{- end }}

{{/* The environment of the store. */}}
{{- define "drover.store.env" -}}
{{- if eq .Values.store.kind "memory" -}}
- name: DROVER_STORE
  value: memory
- name: DROVER_MAX_ENTRIES
  value: {{ int64 .Values.limits.maxEntries | quote }}
- name: DROVER_MAX_MEMORY
  value: {{ .Values.limits.maxMemory | quote }}
{{- else -}}
- name: DROVER_STORE
  valueFrom:
    secretKeyRef:
      name: {{ include "drover.store.secret" . }}
      key: {{ ternary .Values.store.existingSecret.key "url" (ne .Values.store.existingSecret.name "") }}
- name: DROVER_STORE_PREFIX
  value: {{ .Values.store.prefix | quote }}
- name: DROVER_STORE_TIMEOUT
  value: {{ .Values.store.timeout | quote }}
{{- with .Values.store.user }}
- name: DROVER_STORE_USER
  value: {{ . | quote }}
{{- end }}
{{- if .Values.store.password.secretName }}
- name: DROVER_STORE_PASSWORD_FILE
  value: /etc/drover/store/password
{{- end }}
{{- if or .Values.store.ca.secretName .Values.store.ca.configMapName }}
- name: DROVER_STORE_CA_FILE
  value: /etc/drover/store/ca.crt
{{- end }}
{{- if .Values.store.clientCertificate.secretName }}
- name: DROVER_STORE_CERT_FILE
  value: /etc/drover/store/tls.crt
- name: DROVER_STORE_KEY_FILE
  value: /etc/drover/store/tls.key
{{- end }}
{{- end }}
{{- end }}

{{/* The files that it names: sources of one projected volume, empty if there are none. */}}
{{- define "drover.store.files" -}}
{{- if eq .Values.store.kind "redis" }}
{{- with .Values.store.password }}
{{- if .secretName }}
- secret:
    name: {{ .secretName }}
    items:
      - {key: {{ .key | quote }}, path: password}
{{- end }}
{{- end }}
{{- with .Values.store.ca }}
{{- if or .secretName .configMapName }}
- {{ ternary "secret" "configMap" (ne .secretName "") }}:
    name: {{ .secretName | default .configMapName }}
    items:
      - {key: {{ .key | quote }}, path: ca.crt}
{{- end }}
{{- end }}
{{- with .Values.store.clientCertificate.secretName }}
- secret:
    name: {{ . }}
    items:
      - {key: tls.crt, path: tls.crt}
      - {key: tls.key, path: tls.key}
{{- end }}
{{- end }}
{{- end }}
