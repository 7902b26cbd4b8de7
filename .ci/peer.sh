#!/usr/bin/env bash
# Makes a Python with Google's dp_accounting, against which `make bench NAME=accounting` measures ours, and prints its path.
# Does nothing but print the second time. Nothing of the product uses it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

VERSION=0.6.0
root="$TOOLS/dp-accounting-$VERSION"

if [ ! -x "$root/bin/python" ]; then
  command -v python3 >/dev/null || fail "the peer of this measurement needs python3 with venv"
  say "fetching dp-accounting $VERSION, once"
  rm -rf "$root.part"
  python3 -m venv "$root.part" && "$root.part/bin/pip" install --quiet "dp-accounting==$VERSION" >&2 ||
    fail "pip could not bring dp-accounting $VERSION"
  # A virtual environment may be moved as long as only its interpreter is called.
  mv "$root.part" "$root"
fi
echo "$root/bin/python"
