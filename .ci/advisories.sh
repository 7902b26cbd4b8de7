#!/usr/bin/env bash
# Checks Cargo.lock against a copy of the advisory database (a folder with `crates/<name>/RUSTSEC-*.md`), without network:
#   UNDERTONE_ADVISORIES=FOLDER .ci/advisories.sh [--manifest-path Cargo.toml]
# The copy is a clone or an archive of https://github.com/RustSec/advisory-db, made on a machine that reaches it. What is accepted
# stands with its reason and its last day under [advisories] in deny.toml.
# Exit status: 0 when nothing is found, 1 for an advisory, an ignore that is over or an old copy, 2 without a database.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

# Where cargo-deny looks below its `db-path`: the name of https://github.com/rustsec/advisory-db with that address's XXH64.
NAME=advisory-db-3157b0e258782691

if [ -z "${UNDERTONE_ADVISORIES:-}" ]; then
  say "no advisory database: nothing was checked. Give a copy of https://github.com/RustSec/advisory-db in UNDERTONE_ADVISORIES"
  exit 2
fi
[ -d "$UNDERTONE_ADVISORIES/crates" ] || { say "$UNDERTONE_ADVISORIES has no folder crates: it is no advisory database"; exit 2; }

# Each ignore has a last day, which has not passed.
over=0
while IFS= read -r line; do
  id=$(sed -n 's/.*id = "\([^"]*\)".*/\1/p' <<<"$line")
  day=$(sed -n 's/.*until \([0-9-]\{10\}\)".*/\1/p' <<<"$line")
  if [ -z "$day" ]; then
    say "deny.toml: the ignore of $id has no last day: end its reason with \"until YYYY-MM-DD\"" && over=1
  elif [[ "$day" < "$(date -u +%F)" ]]; then
    say "deny.toml: the ignore of $id was until $day: look at it again" && over=1
  fi
done < <(sed -n '/^\[advisories\]/,/^\[sources\]/p' deny.toml | grep 'id = "')
[ "$over" = 0 ] || exit 1

work=$(mktemp -d "${TMPDIR:-/tmp}/undertone-advisories.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/$NAME/.git"
cp -r "$UNDERTONE_ADVISORIES/crates" "$work/$NAME/crates"
# As old as its newest advisory, whatever copying did to the files.
newest=$(grep -rhE '^date = "' "$work/$NAME/crates" | cut -d'"' -f2 | LC_ALL=C sort | tail -1)
[ -n "$newest" ] || { say "$UNDERTONE_ADVISORIES has no advisory"; exit 2; }
touch -d "$newest" "$work/$NAME/.git/FETCH_HEAD"
sed "s|^\[advisories\]|&\ndb-path = \"$work\"|" deny.toml >"$work/deny.toml"

deny=$(.ci/deny.sh --path)
say "advisories up to $newest"
"$deny" --offline --locked --config "$work/deny.toml" "$@" check advisories
