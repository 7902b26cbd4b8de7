#!/usr/bin/env bash
# Builds the book of `docs` with mdBook and prints the path of its first page. mdBook is built once, from crates.io, and kept beside the
# other tools; after that nothing is fetched. `.ci/docs.sh --path` only prints where the program is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

VERSION=0.5.4
root="$TOOLS/mdbook-$VERSION"

if [ ! -x "$root/bin/mdbook" ]; then
  say "building mdbook $VERSION, once"
  # It runs for a second: quick to compile matters more than quick to run.
  CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    CARGO_TARGET_DIR="$root/target" cargo install mdbook --version "$VERSION" --no-default-features --locked --root "$root" --quiet
  rm -rf "$root/target"
fi
[ "${1:-}" != --path ] || { echo "$root/bin/mdbook"; exit; }

# Outside the checkout, as everything else that is built.
book="$CARGO_TARGET_DIR/book"
# mdBook reports an include that it cannot read, and goes on.
log=$("$root/bin/mdbook" build docs --dest-dir "$book" 2>&1) || { printf '%s\n' "$log" >&2; fail "mdbook failed"; }
printf '%s\n' "$log" >&2
! grep -qE '\b(ERROR|WARN)\b' <<<"$log" || fail "mdbook found a mistake in docs"
echo "$book/index.html"
