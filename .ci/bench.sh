#!/usr/bin/env bash
# One measurement of the product: `.ci/bench.sh NAME` prints one JSON object a line. Without a name it lists them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

.ci/setup.sh
claim_target_dir
.ci/bundle.sh >/dev/null
# What one measurement alone needs.
if [ "${1:-}" = accounting ]; then
  .ci/bits.sh
  UNDERTONE_PEER=$(.ci/peer.sh accounting)
  export UNDERTONE_PEER
elif [ "${1:-}" = counting ] && [ -z "${2:-}" ]; then
  UNDERTONE_PEER=$(.ci/peer.sh counting)
  export UNDERTONE_PEER
elif [ "${1:-}" = dp_step ] && [ -z "${2:-}" ]; then
  UNDERTONE_PEER=$(.ci/peer.sh training)
  export UNDERTONE_PEER
fi
# A measurement starts the programs itself.
build_programs undertone-server undertone-worker bench
release_target_dir
if [ "${1:-}" = ledger ]; then
  # On both databases, and what is committed must be on the disk.
  UNDERTONE_POSTGRES_DURABLE=1 exec .ci/with-postgres.sh "$CARGO_TARGET_DIR/debug/bench" "$@"
fi
exec "$CARGO_TARGET_DIR/debug/bench" "$@"
