{{- $all := slice -}}
{{- range site.Pages -}}{{- if .File -}}
{{- $all = $all | append (dict "title" (partial "title.html" .) "url" (strings.TrimPrefix "/" .RelPermalink) "text" (.Plain | htmlUnescape | replaceRE `\s+` " ")) -}}
{{- end -}}{{- end -}}
window.searchIndex = {{ $all | jsonify }};
