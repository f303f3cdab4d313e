#!/usr/bin/env bash
# Builds one of the pinned tools of ci/tools/go.mod into bin/ and prints its path:
#   "$(ci/tools.sh staticcheck)" ./...
set -euo pipefail
cd "$(dirname "$0")/.."
tool=${1:?usage: ci/tools.sh TOOL}
mkdir -p bin
mod=ci/tools
[ "$tool" = golangci-lint ] && mod=ci/tools/golangci # so many dependencies that it has a module of its own
pkg=$(cd "$mod" && go list -f '{{.ImportPath}}' tool | grep -E "/$tool\$") ||
  { echo "ci/tools.sh: no tool $tool in $mod/go.mod" >&2; exit 2; }
out=$PWD/bin/$tool
(cd "$mod" && go build -o "$out" "$pkg")
echo "$PWD/bin/$tool"
