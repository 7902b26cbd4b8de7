#!/usr/bin/env bash
# A consortium with its workers on this machine, built and started: `.ci/demo.sh [--data FOLDER] [--open] [--exit]`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

.ci/setup.sh
claim_target_dir
.ci/bundle.sh >&2
build_programs undertone-demo undertone-worker
release_target_dir
export UNDERTONE_DIST="$PWD/app/dist"
UNDERTONE_ALIGNER=$(.ci/aligner.sh) && export UNDERTONE_ALIGNER || say "no PocketSphinx: the demo has no transcription job"
exec "$CARGO_TARGET_DIR/debug/undertone-demo" "$@"
