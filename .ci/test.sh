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

# `begin NAME COMMAND...`: a step in the background. `finish NAME` waits for it, shows what it wrote to its log (and not to its output, which
# `finish` leaves in $beside/NAME.out), and counts it.
declare -A begun
begin() {
  local name=$1
  shift
  # Its processes are a group of their own, which can be ended together.
  set -m
  (
    SECONDS=0
    "$@" >"$beside/$name.out" 2>"$beside/$name.log"
    verdict=$?
    echo "$SECONDS" >"$beside/$name.seconds"
    exit "$verdict"
  ) &
  begun[$name]=$!
  set +m
}
finish() {
  local name=$1 verdict=ok
  printf '\n==> %s\n' "$name"
  wait "${begun[$name]}" || { verdict=FAILED; failures=$((failures + 1)); }
  unset "begun[$name]"
  cat "$beside/$name.log"
  table+=("$(printf '%-12s %6d s  %s, beside others' "$name" "$(cat "$beside/$name.seconds")" "$verdict")")
}

beside=$(mktemp -d "${TMPDIR:-/tmp}/undertone-steps.XXXXXX")
tests_log=$(mktemp "${TMPDIR:-/tmp}/undertone-tests.XXXXXX")
scenarios_log=$tests_log.scenarios
python_log=$tests_log.python
scenarios=
memory_folder=
trap 'rm -rf "$beside" "$tests_log" "$scenarios_log" "$python_log" ${memory_folder:+"$memory_folder"}; kill ${scenarios:+"$scenarios"} "${begun[@]/#/-}" 2>/dev/null' EXIT

# Brings what some tests use, and prints an `export` for each: NAME of the variable, what is missing without it, the command that prints the
# path. Where one cannot be had, its tests say so and pass.
bring() {
  local name=$1 without=$2 path
  shift 2
  if path=$("$@"); then printf 'export %s=%q\n' "$name" "$path"; else say "$without"; fi
}
bring_tools() {
  bring UNDERTONE_ALIGNER "no PocketSphinx: alignment is not tested" .ci/aligner.sh
  bring UNDERTONE_OIDC_PROVIDER "no provider: signing in there is not tested" .ci/oidc.sh
  bring UNDERTONE_AXE "no axe-core: pages are not examined for accessibility" .ci/axe.sh
  bring UNDERTONE_CLIENT "no generator and fuzzer: REST's description is not tried out" .ci/client.sh
  bring UNDERTONE_PYTHON "no Python packages: the Python client is not tested" .ci/python.sh tools
  bring UNDERTONE_S3 "no S3-compatible store: objects are kept in folders only" .ci/s3.sh
  bring UNDERTONE_MANIFESTS "no validator: the manifests of Kubernetes are not checked" .ci/manifests.sh
}

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
# The (absent) examples keep the features of the libraries the same as for clippy: see build_programs. With the variables that `cargo clippy`
# sets, cargo finds that our crates have been checked, and does not check them again.
check_docs() {
  RUSTC_WORKSPACE_WRAPPER="$(rustc --print sysroot)/bin/clippy-driver" CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ RUSTDOCFLAGS='-D warnings' \
    cargo doc --workspace --locked --no-deps --lib --bin undertone-bundle --bin undertone-demo --bin bench --examples
}

# What compiles for the browser has a target directory of its own.
make_bundle() { .ci/bundle.sh && .ci/bits.sh; }

claim_target_dir
step setup .ci/setup.sh
if [ "$failures" = 0 ]; then
  step format cargo fmt --all --check
  # One compilation does not keep two cores busy.
  begin tools bring_tools
  begin bundle make_bundle
  step clippy cargo clippy --workspace --all-targets --locked -- -D warnings
  step docs check_docs
  step deny .ci/deny.sh
  finish tools
  . "$beside/tools.out"
  step softhsm find_softhsm
  finish bundle
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
