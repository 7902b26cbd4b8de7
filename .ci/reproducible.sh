#!/usr/bin/env bash
# Builds the packages of the commit twice, in two folders with two target directories, and compares them byte by byte:
# `.ci/reproducible.sh [worker|server|cli ...]`. Two release builds take most of an hour, so `make test` does not run it; the packaging alone
# is compared there (`package_of_the_same_program_has_the_same_bytes`).
# Both builds have one compiler, one $CARGO_HOME and one set of system libraries: give the same ones to compare with another machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
work=$(mktemp -d "$UNDERTONE_CACHE/reproducible.XXXXXX")
trap 'rm -rf "$work"' EXIT
unset UNDERTONE_CLAIMED
for folder in first the-second-in-a-longer-folder; do
  mkdir -p "$work/$folder/source"
  git archive HEAD | tar -x -C "$work/$folder/source"
  say "building in $work/$folder"
  (cd "$work/$folder/source" && CARGO_TARGET_DIR="$work/$folder/target" .ci/package.sh --out "$work/$folder/packages" "$@")
  rm -rf "$work/$folder/target" "$work/$folder/target-wasm"
done
same=0
for file in "$work"/first/packages/*.deb; do
  other="$work/the-second-in-a-longer-folder/packages/$(basename "$file")"
  sha256sum "$file" "$other" | sed "s|$work/||"
  cmp "$file" "$other" || same=1
done
[ "$same" = 0 ] || fail "the packages differ: compare them with diffoscope"
say "the packages are the same"
