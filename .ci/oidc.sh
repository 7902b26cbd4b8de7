#!/usr/bin/env bash
# Fetches a provider of sign-ins, a certified implementation of OpenID Connect, with which the tests sign people in, and
# prints its folder. Does nothing but print the second time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

VERSION=8.8.1
root=$(pinned_root "oidc-provider-$VERSION" oidc)

# What was fetched earlier needs node too.
command -v node >/dev/null || fail "a provider of sign-ins needs node and npm, which are not installed by themselves"
if [ ! -f "$root/node_modules/oidc-provider/package.json" ]; then
  command -v npm >/dev/null || fail "a provider of sign-ins needs npm, which is not installed by itself"
  say "fetching oidc-provider $VERSION, once"
  rm -rf "$root.part"
  pinned_npm "$root.part" oidc ||
    fail "npm could not bring oidc-provider $VERSION"
  mv "$root.part" "$root"
fi
echo "$root"
