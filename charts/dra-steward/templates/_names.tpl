{{- /* Refuses a name that is not known, with the known one that shares the most pairs of letters. */ -}}
{{- define "dra-steward.unknownName" -}}
{{- $best := "" -}}
{{- $most := 0 -}}
{{- range $known := .known -}}
{{- $shared := 0 -}}
{{- range $i := until (sub (len $.name) 1 | int | max 0 | int) -}}
{{- if contains (substr $i (add $i 2 | int) $.name | lower) (lower $known) -}}
{{- $shared = add $shared 1 -}}
{{- end -}}
{{- end -}}
{{- $longer := sub (len $known) (len $.name) -}}
{{- $score := sub (mul 2 $shared) (max $longer (sub 0 $longer)) -}}
{{- if gt $score (int64 $most) -}}
{{- $best = $known -}}
{{- $most = $score -}}
{{- end -}}
{{- end -}}
{{- $hint := .list -}}
{{- if and $best (ge (int $most) (sub (len .name) 1 | int)) -}}
{{- $hint = printf "did you mean %q?" $best -}}
{{- end -}}
{{- fail (printf "%s: there is no %s %q; %s" .path .what .name $hint) -}}
{{- end -}}

{{- /* Refuses the code of a policy that does not exist. Codes of a site's own policies do not begin with DRA-. */ -}}
{{- define "dra-steward.knownCode" -}}
{{- $own := and (not (hasPrefix "DRA-" .name)) (regexMatch "^[A-Z][A-Z0-9]*(-[A-Z0-9]+)+$" .name) -}}
{{- if not (or $own (hasKey .names.policies .name)) -}}
{{- include "dra-steward.unknownName" (dict "path" .path "what" "policy" "name" .name "known" (keys .names.policies | sortAlpha) "list" "docs/policies.md lists all") -}}
{{- end -}}
{{- end -}}

{{- /* Refuses policies and parameters of policies that do not exist. */ -}}
{{- define "dra-steward.knownSettings" -}}
{{- range $code, $mode := .settings.modes -}}
{{- include "dra-steward.knownCode" (dict "path" (printf "%s.modes" $.path) "name" $code "names" $.names) -}}
{{- end -}}
{{- range $code, $parameters := .settings.parameters -}}
{{- include "dra-steward.knownCode" (dict "path" (printf "%s.parameters" $.path) "name" $code "names" $.names) -}}
{{- if hasKey $.names.policies $code -}}
{{- $known := get $.names.policies $code -}}
{{- range $name, $value := $parameters -}}
{{- if not (has $name $known) -}}
{{- $list := ternary (printf "it has %s" (join ", " $known)) "it has no parameters" (gt (len $known) 0) -}}
{{- include "dra-steward.unknownName" (dict "path" (printf "%s.parameters.%s" $.path $code) "what" "parameter" "name" $name "known" $known "list" $list) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Refuses rules, policies and parameters that do not exist, also where Helm skips the schema. */ -}}
{{- define "dra-steward.requireNames" -}}
{{- $names := .Files.Get "files/names.yaml" | fromYaml -}}
{{- $all := "docs/rules.md lists all" -}}
{{- range $rule, $severity := .Values.rules -}}
{{- if not (has $rule $names.rules) -}}
{{- include "dra-steward.unknownName" (dict "path" "rules" "what" "rule" "name" $rule "known" $names.rules "list" $all) -}}
{{- end -}}
{{- end -}}
{{- include "dra-steward.knownSettings" (dict "path" "policies" "settings" .Values.policies "names" $names) -}}
{{- range $i, $settings := .Values.policies.namespaces -}}
{{- include "dra-steward.knownSettings" (dict "path" (printf "policies.namespaces[%d]" $i) "settings" $settings "names" $names) -}}
{{- end -}}
{{- range $i, $exemption := .Values.exemptions -}}
{{- range $j, $rule := $exemption.rules -}}
{{- $own := and (not (hasPrefix "DRA-" $rule)) (regexMatch "^[A-Z][A-Z0-9]*(-[A-Z0-9]+)+$" $rule) -}}
{{- if not (or (eq $rule "*") $own (has $rule $names.rules) (hasKey $names.policies $rule)) -}}
{{- include "dra-steward.unknownName" (dict "path" (printf "exemptions[%d].rules[%d]" $i $j) "what" "rule or policy" "name" $rule "known" (concat $names.rules (keys $names.policies | sortAlpha)) "list" $all) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
