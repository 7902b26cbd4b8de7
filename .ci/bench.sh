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
elif [ "${1:-}" = analytics ] && [ -z "${2:-}" ]; then
  UNDERTONE_PEER=$(.ci/peer.sh analytics)
  export UNDERTONE_PEER
elif [ "${1:-}" = counting ] && [ -z "${2:-}" ]; then
  UNDERTONE_PEER=$(.ci/peer.sh counting)
  export UNDERTONE_PEER
elif { [ "${1:-}" = transcription ] && [ -z "${2:-}" ]; } || [ "${1:-}" = tasks ]; then
  UNDERTONE_ALIGNER=$(.ci/aligner.sh)
  export UNDERTONE_ALIGNER
elif [ "${1:-}" = rounds ]; then
  UNDERTONE_PEER=$(.ci/peer.sh rounds)
  export UNDERTONE_PEER
elif [ "${1:-}" = tabular ] || { [ "${1:-}" = dp_step ] && [ -z "${2:-}" ]; }; then
  UNDERTONE_PEER=$(.ci/peer.sh training)
  export UNDERTONE_PEER
fi
# A measurement starts the programs itself.
if [ "${UNDERTONE_BENCH_RELEASE:-}" = 1 ]; then
  # As packages have them; takes long to build.
  cargo build --locked --release --workspace --examples --bin undertone-server --bin undertone-worker --bin undertone-demo --bin bench
  programs="$CARGO_TARGET_DIR/release"
else
  build_programs undertone-server undertone-worker undertone-demo bench
  programs="$CARGO_TARGET_DIR/debug"
fi
case "${1:-}" in
hostile | fairness)
  # What is measured is the server as its package has it, or the program that the caller names; its callers need no release.
  server="UNDERTONE_$(tr '[:lower:]' '[:upper:]' <<<"$1")_SERVER"
  if [ -z "${!server:-}" ]; then
    cargo build --locked --release -p undertone-server
    export "$server=$CARGO_TARGET_DIR/release/undertone-server"
  fi
  # Ten thousand connections at each end.
  ulimit -n "$(ulimit -Hn)"
  ;;
esac
release_target_dir
if [ "${1:-}" = ledger ] || [ "${1:-}" = load ]; then
  # On both databases, and what is committed must be on the disk. Some thousand files and connections are open at a time.
  ulimit -n "$(ulimit -Hn)"
  UNDERTONE_POSTGRES_DURABLE=1 exec .ci/with-postgres.sh "$programs/bench" "$@"
fi
exec "$programs/bench" "$@"
