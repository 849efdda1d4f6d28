{{- define "holdfast.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "holdfast.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "holdfast.labels" -}}
app.kubernetes.io/name: {{ include "holdfast.name" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "holdfast.token" -}}
- name: HOLDFAST_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .Values.tokenSecret.name }}
      key: {{ .Values.tokenSecret.key }}
{{- end -}}

{{- define "holdfast.containerSecurity" -}}
runAsUser: 10001
runAsGroup: 10001
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* The spec of a server's pod. */ -}}
{{- define "holdfast.serverPod" -}}
serviceAccountName: {{ include "holdfast.name" . }}
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
# Otherwise a Service named holdfast would set HOLDFAST_PORT to tcp://….
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
securityContext:
  runAsNonRoot: true
  {{- if eq .Values.mode "embedded" }}
  fsGroup: 10001
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- if eq .Values.mode "dapr" }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        app.kubernetes.io/name: {{ include "holdfast.name" . }}
{{- end }}
containers:
  - name: holdfast
    image: {{ include "holdfast.image" . | quote }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args:
      - serve
      {{- range .Values.apps }}
      - {{ . | quote }}
      {{- end }}
      - --host
      - {{ .Values.mode }}
      {{- if .Values.worker.enabled }}
      - --no-worker
      {{- end }}
      {{- range .Values.args }}
      - {{ . | quote }}
      {{- end }}
    ports:
      - name: http
        containerPort: 8080
    env:
      - name: HOLDFAST_PORT
        value: "8080"
      {{- include "holdfast.token" . | nindent 6 }}
      {{- if eq .Values.mode "dapr" }}
      - name: APP_API_TOKEN
        valueFrom:
          secretKeyRef:
            name: {{ .Values.dapr.secret }}
            key: token
      # Tells actor calls of Holdfast's own pods from those of other apps.
      - name: HOLDFAST_ACTOR_SECRET
        valueFrom:
          secretKeyRef:
            name: {{ .Values.dapr.secret }}
            key: actor-secret
      {{- end }}
      {{- with .Values.env }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    startupProbe:
      httpGet:
        path: /healthz
        port: http
      periodSeconds: 1
      failureThreshold: 60
    livenessProbe:
      httpGet:
        path: /healthz
        port: http
      periodSeconds: 10
      timeoutSeconds: 5
      failureThreshold: 6
    readinessProbe:
      httpGet:
        path: /readyz
        port: http
      periodSeconds: 2
      timeoutSeconds: 2
    {{- if eq .Values.mode "dapr" }}
    lifecycle:
      preStop:
        # The Service still routes requests to a pod for a moment after it began to stop.
        sleep:
          seconds: 5
    {{- end }}
    resources: {{ toYaml .Values.resources | nindent 6 }}
    securityContext: {{ include "holdfast.containerSecurity" . | nindent 6 }}
    volumeMounts:
      {{- if eq .Values.mode "embedded" }}
      - name: data
        mountPath: /data
      {{- end }}
      - name: tmp
        mountPath: /tmp
      {{- with .Values.volumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  - name: tmp
    emptyDir: {}
  {{- with .Values.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
