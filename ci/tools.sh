#!/usr/bin/env bash
# Builds one of the pinned tools of ci/tools/go.mod into bin/ and prints its path:
#   "$(ci/tools.sh staticcheck)" ./...
set -euo pipefail
cd "$(dirname "$0")/.."
tool=${1:?usage: ci/tools.sh TOOL}
mkdir -p bin
pkg=$(cd ci/tools && go list -f '{{.ImportPath}}' tool | grep -E "/$tool\$") ||
  { echo "ci/tools.sh: no tool $tool in ci/tools/go.mod" >&2; exit 2; }
(cd ci/tools && go build -o "../../bin/$tool" "$pkg")
echo "$PWD/bin/$tool"
