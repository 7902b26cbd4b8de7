#!/usr/bin/env bash
# Everything that must hold before a change is shared. Each step runs even when one before it failed, so that one run
# tells all. The failed tests stand above the last line, which counts the tests; the exit status is 0 only if every step
# and every test passed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

table=()
failures=0

step() {
  local name=$1 started=$SECONDS verdict=ok
  shift
  printf '\n==> %s\n' "$name"
  "$@" || { verdict=FAILED; failures=$((failures + 1)); }
  table+=("$(printf '%-12s %6d s  %s' "$name" $((SECONDS - started)) "$verdict")")
}

tests_log=$(mktemp "${TMPDIR:-/tmp}/undertone-tests.XXXXXX")
scenarios_log=$tests_log.scenarios
python_log=$tests_log.python
scenarios=
memory_folder=
trap 'rm -rf "$tests_log" "$scenarios_log" "$python_log" ${memory_folder:+"$memory_folder"}; [ -z "$scenarios" ] || kill "$scenarios" 2>/dev/null' EXIT

# Where it cannot be had, the tests that align speech say so and pass.
make_aligner() { UNDERTONE_ALIGNER=$(.ci/aligner.sh) && export UNDERTONE_ALIGNER || say "no PocketSphinx: alignment is not tested"; }

# Where they cannot be had, no client is generated and no description fuzzed, and the tests say so.
make_client() { UNDERTONE_CLIENT=$(.ci/client.sh) && export UNDERTONE_CLIENT || say "no generator and fuzzer: REST's description is not tried out"; }

# Where it cannot be had, objects are kept in folders only, and the test of a bucket says so.
make_s3() { UNDERTONE_S3=$(.ci/s3.sh) && export UNDERTONE_S3 || say "no S3-compatible store: objects are kept in folders only"; }

# Where it cannot be had, pages are looked at without it, and the tests say so.
fetch_axe() { UNDERTONE_AXE=$(.ci/axe.sh) && export UNDERTONE_AXE || say "no axe-core: pages are not examined for accessibility"; }

# Where it cannot be had, the tests that sign people in at a provider say so and pass.
make_provider() { UNDERTONE_OIDC_PROVIDER=$(.ci/oidc.sh) && export UNDERTONE_OIDC_PROVIDER || say "no provider: signing in there is not tested"; }

# Where they cannot be had, the Python client is neither built nor tested, and the log says so.
make_python() { UNDERTONE_PYTHON=$(.ci/python.sh tools) || say "no Python packages: the Python client is not tested"; }

# Where it cannot be had, the manifests of Kubernetes are not checked, and their test says so.
make_validator() { UNDERTONE_MANIFESTS=$(.ci/manifests.sh) && export UNDERTONE_MANIFESTS || say "no validator: the manifests of Kubernetes are not checked"; }

# .ci/setup.sh has installed it.
find_softhsm() { UNDERTONE_SOFTHSM=$(ls /usr/lib/softhsm/libsofthsm2.so) && export UNDERTONE_SOFTHSM; }

# Ledgers, databases and work folders are synced to the disk at each step, and most tests spend their time on that. Where there
# is enough memory, they keep their files in it: they stop processes, never the power.
use_memory() {
  local free available
  free=$(df --output=avail --block-size=1M /dev/shm 2>/dev/null | tail -1)
  available=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
  if [ "${free:-0}" -ge 8192 ] && [ "${available:-0}" -ge 12288 ] && memory_folder=$(mktemp -d /dev/shm/undertone-tests.XXXXXX); then
    # PostgreSQL runs as another user.
    chmod 711 "$memory_folder"
    export TMPDIR=$memory_folder
  fi
}

# The scenarios (target `integration`) wait for programs most of the time, so they run beside all other tests, and are shown after them.
run_tests() {
  local all=(cargo test --workspace --locked --no-fail-fast) others failed=0
  # "Executable tests/adoption.rs (target/debug/deps/adoption-0123456789abcdef)" of every target that is no unit test.
  "${all[@]}" --no-run 2>&1 | tee "$tests_log" || return 1
  use_memory
  mapfile -t others < <(sed -nE 's/^ *Executable [^u].* \(.*\/deps\/(.+)-[0-9a-f]{16}\)$/--test=\1/p' "$tests_log" | grep -vx -e --test=integration)
  .ci/with-postgres.sh "${all[@]}" --test integration >"$scenarios_log" 2>&1 &
  scenarios=$!
  .ci/with-postgres.sh "${all[@]}" --lib --bins "${others[@]}" 2>&1 | tee -a "$tests_log" || failed=1
  "${all[@]}" --doc 2>&1 | tee -a "$tests_log" || failed=1
  say "waiting for the scenarios"
  wait "$scenarios" || failed=1
  scenarios=
  tee -a "$tests_log" <"$scenarios_log"
  return "$failed"
}
# The Python client against the programs. Its tests are counted with the others.
test_python() { [ -z "${UNDERTONE_PYTHON:-}" ] || .ci/python.sh test 2>&1 | tee "$python_log"; }
# The (absent) examples keep the features of the libraries the same as for clippy: see build_programs.
check_docs() { RUSTDOCFLAGS='-D warnings' cargo doc --workspace --locked --no-deps --lib --bin undertone-bundle --bin undertone-demo --bin bench --examples; }

claim_target_dir
step setup .ci/setup.sh
if [ "$failures" = 0 ]; then
  step aligner make_aligner
  step provider make_provider
  step axe fetch_axe
  step client make_client
  step packages make_python
  step s3 make_s3
  step manifests make_validator
  step softhsm find_softhsm
  step format cargo fmt --all --check
  step clippy cargo clippy --workspace --all-targets --locked -- -D warnings
  step docs check_docs
  step deny .ci/deny.sh
  step bundle .ci/bundle.sh
  step bits .ci/bits.sh
  # The tests start the programs themselves.
  step build build_programs undertone-server undertone-worker undertone-demo undertone
  step python test_python
  step test run_tests
fi
touch "$python_log"

# "test result: ok. 12 passed; 0 failed; ..." of every test binary, and "1 failed, 50 passed in 17.62s" of pytest.
read -r passed failed < <(awk '
  /^test result:/ { p += $4; f += $6 }
  / in [0-9.]+s/ && /^[0-9]+ (passed|failed|error)/ { for (i = 1; i < NF; i++) { if ($(i + 1) ~ /^passed/) p += $i; if ($(i + 1) ~ /^(failed|errors?)/) f += $i } }
  END { print p + 0, f + 0 }' "$tests_log" "$python_log")

printf '\n'
printf '%s\n' "${table[@]}"
printf '%-12s %6d s\n\n' total "$SECONDS"
# Again at the end: where a long log is shown, its middle may be cut.
awk -f .ci/failures.awk "$tests_log" "$python_log"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failures" = 0 ] && [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
