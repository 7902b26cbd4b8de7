#!/usr/bin/env bash
# Fetches axe-core (MPL-2.0), with which the browser tests examine every page, and prints where it lies. Does nothing but
# print the second time. It is a tool of the tests: never shipped, never part of the checkout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

VERSION=4.14.1
root=$(pinned_root "axe-core-$VERSION" axe)

if [ ! -f "$root/axe.min.js" ]; then
  command -v npm >/dev/null || fail "axe-core needs npm"
  say "fetching axe-core $VERSION, once"
  rm -rf "$root.part"
  pinned_npm "$root.part" axe || fail "npm could not bring axe-core $VERSION"
  mv "$root.part/node_modules/axe-core/axe.min.js" "$root.part/node_modules/axe-core/LICENSE" "$root.part/"
  rm -rf "$root.part/node_modules"
  mv "$root.part" "$root"
fi
echo "$root/axe.min.js"
