#!/usr/bin/env bash
# Builds the development cluster and shows how far it is: the first build compiles all of Kubernetes.
# Usage: build-devcluster.sh OUTPUT
set -euo pipefail

if [ $# -ne 1 ]; then
	echo "usage: $0 OUTPUT" >&2
	exit 2
fi
output=$1
module=$(dirname "$0")/devcluster

mkdir -p "$(dirname "$output")"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# In a terminal the line is redrawn, elsewhere a new one is written now and then.
if [ -t 2 ]; then every=2 begin=$'\r' end=$'\033[K'; else every=30 begin= end=$'\n'; fi

# The packages that the cache does not hold yet. Asked with the flags of build.sh, which are part of the answer.
echo "building $output: resolving its packages" >&2
total=$(cd "$module" && CGO_ENABLED=0 go list -deps -trimpath -f '{{if .Stale}}x{{end}}' . | grep -c x || true)

"$module/build.sh" "$output" -v 2>"$log" &
build=$!
trap 'kill "$build" 2>/dev/null || true; rm -f "$log"' EXIT

# go build -v writes the name of each package it compiles on a line of its own.
compiled() { grep -cE '^[^[:space:]#:]+$' "$log" || true; }
said=0
while kill -0 "$build" 2>/dev/null; do
	sleep 1
	if [ "$total" -gt 1 ] && [ $((SECONDS - said)) -ge "$every" ]; then
		said=$SECONDS
		printf '%scompiled %d of %d packages, %dm%02ds%s' "$begin" "$(compiled)" "$total" $((SECONDS / 60)) $((SECONDS % 60)) "$end" >&2
	fi
done

status=0
wait "$build" || status=$?
[ ! -t 2 ] || printf '\r\033[K' >&2
if [ "$status" -ne 0 ]; then
	grep -vE '^[^[:space:]#:]+$' "$log" >&2 || true
	echo "building $output failed" >&2
	exit "$status"
fi
# An unchanged binary keeps its time, and make would ask again.
touch "$output"
echo "built $output in $((SECONDS / 60))m$((SECONDS % 60))s" >&2
