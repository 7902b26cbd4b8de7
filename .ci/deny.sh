#!/usr/bin/env bash
# `cargo deny` with deny.toml: licences, sources, and which crate may name which library. Known vulnerabilities are not
# part of it: they need a database from elsewhere and change without a commit (`.ci/advisories.sh`).
# `.ci/deny.sh --path` only prints where the program is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

VERSION=0.20.2
root="$TOOLS/cargo-deny-$VERSION"

if [ ! -x "$root/bin/cargo-deny" ]; then
  say "building cargo-deny $VERSION, once"
  # It runs for a second: quick to compile matters more than quick to run.
  CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    CARGO_TARGET_DIR="$root/target" cargo install cargo-deny --version "$VERSION" --locked --root "$root" --quiet
  rm -rf "$root/target"
fi
[ "${1:-}" != --path ] || { echo "$root/bin/cargo-deny"; exit; }
"$root/bin/cargo-deny" --locked check "$@" bans licenses sources
