#!/usr/bin/env bash
# Throws hostile inputs at every door for so many seconds each: `.ci/fuzz.sh [SECONDS] [NAME]`, a part of the tests' names. Every
# target runs in a process of its own and prints one JSON object a line: inputs, seconds, the slowest input, the most memory.
# Other inputs each time; UNDERTONE_FUZZ_SEED gives those of an earlier run again. The exit status is 0 only if every door held.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

seconds=${1:-60} name=${2:-}
.ci/setup.sh
claim_target_dir
# The whole workspace, so that libraries have the features that they have in `make test`.
binaries=$(cargo test --workspace --locked --no-run --message-format json-render-diagnostics |
  sed -n 's/.*"executable":"\([^"]*\/undertone_\(api\|proto\|worker[a-z_]*\|server[a-z_]*\)-[^"]*\)".*/\1/p' | sort -u)
release_target_dir
export UNDERTONE_FUZZ_SECONDS=$seconds UNDERTONE_FUZZ_SEED="${UNDERTONE_FUZZ_SEED:-$(date +%s)}"
say "seed $UNDERTONE_FUZZ_SEED, $seconds s a target"
status=0
output=$(mktemp "${TMPDIR:-/tmp}/undertone-fuzz.XXXXXX")
trap 'rm -f "$output"' EXIT
for binary in $binaries; do
  for target in $("$binary" --list | sed -n 's/^\(.*fuzz::.*\): test$/\1/p'); do
    [[ "$target" == *"$name"* ]] || continue
    if "$binary" --exact "$target" --nocapture >"$output" 2>&1; then
      # On a machine with one core the name of the test stands before it.
      grep -ao '{"target":.*}' "$output" || true
    else
      status=1
      say "$target failed:"
      tail -n 40 "$output" | cut -c 1-4000 >&2
    fi
  done
done
exit "$status"
