#!/usr/bin/env bash
# Makes a Python that checks Kubernetes manifests against the schemas of their versions, and prints its path. Does nothing but print the
# second time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

VALIDATOR=1.37.0
root=$(pinned_root "manifests-$VALIDATOR" manifests.txt)
if [ ! -x "$root/bin/python" ]; then
  command -v python3 >/dev/null || fail "manifests are checked with python3 and its venv"
  say "fetching kubernetes-validate $VALIDATOR, once"
  rm -rf "$root.part"
  pinned_python "$root.part" manifests.txt || fail "pip could not bring kubernetes-validate"
  # A virtual environment may be moved as long as only its interpreter is called.
  mv "$root.part" "$root"
fi
echo "$root/bin/python"
