#!/usr/bin/env bash
# Makes a Python with PocketSphinx, with which the tests align real speech, and prints its path. Does nothing but print the
# second time. A site makes one of its own: see `undertone-worker data prepare --help`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

VERSION=5.1.1
root=$(pinned_root "pocketsphinx-$VERSION" pocketsphinx.txt)

if [ ! -x "$root/bin/python" ]; then
  command -v python3 >/dev/null || fail "forced alignment needs python3 with venv"
  say "fetching pocketsphinx $VERSION, once"
  rm -rf "$root.part"
  pinned_python "$root.part" pocketsphinx.txt ||
    fail "pip could not bring pocketsphinx $VERSION"
  # A virtual environment may be moved as long as only its interpreter is called.
  mv "$root.part" "$root"
fi
echo "$root/bin/python"
