#!/usr/bin/env bash
# Builds the part of the dashboard that runs in the browser into app/dist and prints its sizes as JSON. Does nothing but
# print while nothing it is built from has changed. Run .ci/setup.sh once before.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

claim_target_dir
BINARYEN=132.0.0
DIST=app/dist
binaryen=$(pinned_root "binaryen-$BINARYEN" binaryen)
wasm_opt="$binaryen/node_modules/.bin/wasm-opt"

# binaryen halves the wasm; without npm the bundle is larger and works the same.
if [ ! -x "$wasm_opt" ] && command -v npm >/dev/null; then
  say "fetching binaryen $BINARYEN, once"
  rm -rf "$binaryen.part"
  pinned_npm "$binaryen.part" binaryen 2>/dev/null &&
    rm -rf "$binaryen" && mv "$binaryen.part" "$binaryen" || say "npm could not bring it: the bundle stays larger"
  rm -rf "$binaryen.part"
fi
optimize=()
[ ! -x "$wasm_opt" ] || ! command -v node >/dev/null || optimize=(--wasm-opt "$wasm_opt")

compiler=$(wasm_compiler)

# Everything the bundle is made from.
inputs=$({
  echo "$compiler ${optimize[*]}"
  find app/src certificate/src tools/bundle/src app/Cargo.toml certificate/Cargo.toml tools/bundle/Cargo.toml api/src api/Cargo.toml privacy/src privacy/Cargo.toml \
    Cargo.toml Cargo.lock .ci/bundle.sh .ci/common.sh -type f -print0 | sort -z | xargs -0 sha256sum
} | sha256sum | cut -d' ' -f1)

if [ "$(cat "$DIST/.inputs" 2>/dev/null)" != "$inputs" ]; then
  built="$WASM_TARGET_DIR/$WASM_TARGET/bundle"
  # One at a time: together, the features of one would be in the others.
  for features in hydrate planner; do
    compile_wasm build -p undertone-app --features "$features"
    cp "$built/undertone_app.wasm" "$built/$features.wasm"
  done
  compile_wasm build -p undertone-certificate --features browser
  build_programs undertone-bundle
  "$CARGO_TARGET_DIR/debug/undertone-bundle" "$DIST" "undertone=$built/hydrate.wasm" "planner=$built/planner.wasm" \
    "certificate=$built/undertone_certificate.wasm" "${optimize[@]}" >/dev/null
  echo "$inputs" >"$DIST/.inputs"
fi
cat "$DIST/manifest.json"
