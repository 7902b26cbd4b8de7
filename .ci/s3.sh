#!/usr/bin/env bash
# Makes a Python with OpenStack Swift, whose S3 interface the tests keep objects in, and prints its path. Does nothing but print the
# second time. `.ci/s3/serve.py` starts it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

VERSION=2.38.0
root=$(pinned_root "swift-$VERSION" swift.txt)

if [ ! -x "$root/bin/python" ]; then
  command -v python3 >/dev/null || fail "an S3-compatible store needs python3 with venv"
  say "fetching OpenStack Swift $VERSION, once"
  rm -rf "$root"
  # Its programs name their interpreter by its whole path, so it is made where it stays.
  pinned_python "$root" swift.txt || {
    rm -rf "$root"
    fail "pip could not bring swift $VERSION"
  }
fi
echo "$root/bin/python"
