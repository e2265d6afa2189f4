#!/usr/bin/env bash
# Copy all versions of a registry that speaks Confluent's API into an empty Registrar. It keeps ids, versions,
# references and soft deletions. It only reads the source, to which nothing else may write meanwhile.
#
#     deploy/copy.sh SOURCE_URL TARGET_URL        (needs curl 7.76 or newer, jq 1.6 or newer)
#
# If it fails, empty the target and start over: it stays in mode IMPORT until everything is copied.
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
source=${1%/} target=${2%/}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

get() { curl -sS --fail-with-body --globoff "$1"; }

send() { # METHOD PATH [BODY or @FILE]
    curl -sS --fail-with-body -o "$work/answer" -X "$1" "$target$2" \
        -H 'Content-Type: application/vnd.schemaregistry.v1+json' ${3+--data-binary "$3"} && return
    echo "$1 $target$2 was refused: $(cat "$work/answer")" >&2
    exit 1
}

uri() { jq -rn --arg text "$1" '$text | @uri'; }

# One line of JSON for each version at URL, soft-deleted ones too ("gone"). In the order of ids, because
# referenced schemas have lower ones.
list() {
    local url=$1 subjects subject path live versions version entry
    subjects=$(get "$url/subjects?deleted=true&subjectPrefix=:*:" | jq -r '.[]')
    while IFS= read -r subject; do
        [ -n "$subject" ] || continue
        path=$url/subjects/$(uri "$subject")/versions
        # A subject whose versions are all soft-deleted is "not found" without deleted=true.
        live=$(curl -sS "$path" | jq -c 'if type == "array" then .
            elif .error_code | tostring | startswith("404") then [] else error(.message) end')
        versions=$(get "$path?deleted=true" | jq '.[]')
        for version in $versions; do
            entry=$(curl -sS "$path/$version?deleted=true")
            case $(jq -r '.error_code // empty' <<<"$entry") in
                "") ;;
                404*) echo "left out, as it is listed but not shown: $subject, version $version" >&2; continue ;;
                *) echo "$path/$version: $entry" >&2; exit 1 ;;
            esac
            jq -c --arg subject "$subject" --argjson live "$live" '
                {id, $subject, version, gone: (.version as $it | $live | index($it) == null), schema,
                 schemaType: (.schemaType // "AVRO"), references: (.references // []), metadata, ruleSet}' <<<"$entry"
        done
    done <<<"$subjects" | jq -sc 'sort_by(.id, .subject, .version)[]'
}

present=$(get "$target/subjects?deleted=true&subjectPrefix=:*:")
[ "$(jq length <<<"$present")" = 0 ] || { echo "$target is not empty" >&2; exit 1; }
list "$source" >"$work/versions"

send PUT /mode/:.__GLOBAL: '{"mode": "IMPORT"}'
while IFS= read -r each; do
    jq 'del(.gone, .subject) | with_entries(select(.value != null))' <<<"$each" >"$work/body"
    send POST "/subjects/$(uri "$(jq -r .subject <<<"$each")")/versions" "@$work/body"
done <"$work/versions"
# In reverse, because a schema can only be deleted when nothing refers to it.
jq -r 'select(.gone) | "/subjects/\(.subject | @uri)/versions/\(.version)"' "$work/versions" | tac >"$work/gone"
while IFS= read -r path; do send DELETE "$path"; done <"$work/gone"

# Levels: the global one, and those of subjects that differ from it.
level() { curl -sS "$1" | jq -r '.compatibilityLevel // empty'; }
top=$(level "$source/config")
[ -z "$top" ] || send PUT /config "{\"compatibility\": \"$top\"}"
jq -r '.subject | @uri' "$work/versions" | sort -u >"$work/subjects"
while IFS= read -r subject; do
    own=$(level "$source/config/$subject?defaultToGlobal=false")
    [ -z "$own" ] || [ "$own" = "$top" ] || send PUT "/config/$subject" "{\"compatibility\": \"$own\"}"
done <"$work/subjects"

# Texts are printed as Confluent does, so they may look different from the source; everything else is compared.
list "$target" >"$work/copied"
diff <(jq -c 'del(.schema)' "$work/versions") <(jq -c 'del(.schema)' "$work/copied") >&2 ||
    { echo "$target differs from $source: see above" >&2; exit 1; }
send DELETE /mode/:.__GLOBAL:
echo "$(wc -l <"$work/versions") versions of $(wc -l <"$work/subjects") subjects copied, and compared"
