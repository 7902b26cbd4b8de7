#!/usr/bin/env bash
# Counting on a cluster: that a scheduler and two executors of Ballista, started on this machine, count as the worker itself does, also
# when one of them is killed meanwhile; and that a worker without DataFusion compiles and states what it lacks. A target of its own, no
# step of `make test`: a cluster needs all of DataFusion, compiled a second time with features that the worker alone does without, and
# Ballista's three programs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

claim_target_dir
cargo test --locked -p undertone-worker-queries --lib --features cluster-test -- count
cargo test --locked -p undertone-worker-queries --lib --no-default-features -- count
cargo check --locked -p undertone-worker --no-default-features
