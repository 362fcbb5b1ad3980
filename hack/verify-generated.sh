#!/usr/bin/env bash
# Fails if generating changes anything. It compares before and after, not with the last commit, so that work in
# progress can be verified; git is asked only whether a generated file was forgotten.
# Usage: verify-generated.sh COMMAND PATH...
set -euo pipefail

if [ $# -lt 2 ]; then
	echo "usage: $0 COMMAND PATH..." >&2
	exit 2
fi
command=$1
shift

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
for path in "$@"; do
	mkdir -p "$before/$(dirname "$path")"
	[ ! -e "$path" ] || cp -R "$path" "$before/$path"
done

bash -c "$command"

status=0
for path in "$@"; do
	diff -ruN "$before/$path" "$path" || status=1
done
if [ "$status" -ne 0 ]; then
	echo "generated files were out of date; they are written anew: review and commit them" >&2
fi

if git rev-parse --verify --quiet HEAD >/dev/null 2>&1; then
	forgotten=$(git ls-files --others --exclude-standard -- "$@")
	if [ -n "$forgotten" ]; then
		printf 'generated files are not under version control:\n%s\n' "$forgotten" >&2
		status=1
	fi
fi
exit "$status"
