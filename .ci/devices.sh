#!/usr/bin/env bash
# The devices beside the CPU: that the worker compiles with each of them, and that on those this machine has the layers
# compute the same. A target of its own, no step of `make test`: burn's graphics processors are some hundred and sixty
# crates more, and a machine without one learns nothing from them but that they compile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

claim_target_dir
for device in cuda wgpu; do
  say "the worker with $device"
  cargo check --locked -p undertone-worker --features "$device"
done
cargo test --locked -p undertone-worker-training --lib --features cuda,wgpu -- layers device
