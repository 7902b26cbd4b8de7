#!/usr/bin/env bash
# Builds the accounting for a browser's engine, with the flags of the dashboard's bundle, and puts it beside the programs:
# a test compares it with the same code compiled natively, bit for bit, and `make bench NAME=accounting` times both. Run
# .ci/setup.sh once before.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

claim_target_dir
wasm_compiler >&2
compile_wasm rustc -p undertone-bits --lib --crate-type cdylib
mkdir -p "$CARGO_TARGET_DIR/debug"
cp "$WASM_TARGET_DIR/$WASM_TARGET/bundle/undertone_bits.wasm" "$CARGO_TARGET_DIR/debug/"
