#!/bin/sh
# Builds the devcluster binary. Usage: build.sh OUTPUT [extra go build flags]
#
# The version stamp is needed: unstamped components call themselves
# v0.0.0-master, which the effective-version logic of Kubernetes reads.
set -eu

if [ $# -lt 1 ]; then
	echo "usage: $0 OUTPUT [go build flags]" >&2
	exit 2
fi
case $1 in
/*) output=$1 ;;
*) output=$PWD/$1 ;;
esac
shift
cd "$(dirname "$0")"

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
major=${version#v}
minor=${major#*.}

stamp=""
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	stamp="$stamp -X $package.gitVersion=$version -X $package.gitMajor=${major%%.*} -X $package.gitMinor=${minor%%.*}"
	stamp="$stamp -X $package.gitTreeState=archive -X $package.gitCommit=0000000000000000000000000000000000000000"
	stamp="$stamp -X $package.buildDate=1970-01-01T00:00:00Z"
done

CGO_ENABLED=0 exec go build -trimpath -ldflags "-s -w$stamp" "$@" -o "$output" .
