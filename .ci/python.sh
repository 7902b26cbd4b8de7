#!/usr/bin/env bash
# Builds the Python client: generates `undertone.rest` from the description of REST, and makes a wheel of it and of `python/src`. Everything
# that is built lies outside the checkout. Nothing is made again that is there already.
#   .ci/python.sh            builds the wheel and prints its path
#   .ci/python.sh tools      fetches what build and tests need, once, and prints the path of the interpreter
#   .ci/python.sh test       builds the wheel and tests it: ruff, mypy, and pytest against programs in $UNDERTONE_PROGRAMS (by default the built ones)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

root=$(pinned_root python python.txt)
generator=$(.ci/client.sh)
if [ ! -x "$root/bin/python" ]; then
  say "fetching cryptography, httpx, mypy, pandas, pyarrow and pytest for the Python client, once"
  rm -rf "$root.part"
  pinned_python "$root.part" python.txt || fail "pip could not bring the packages of .ci/pins/python.txt"
  # A virtual environment may be moved as long as only its interpreter is called.
  mv "$root.part" "$root"
fi
[ "${1:-}" != tools ] || { echo "$root/bin/python"; exit; }

# A folder for each state of the sources: another state is another build.
inputs=(python/generate.py python/generator.yml python/pyproject.toml python/README.md python/src LICENSE-MIT LICENSE-APACHE .ci/python.sh
  .ci/pins/python.txt .ci/pins/client.txt server/src/rest/snapshots/undertone_server__rest__tests__the_description_is_what_was_agreed.snap)
state=$(find "${inputs[@]}" -type f -not -path '*/__pycache__/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c1-12)
folder="$CARGO_TARGET_DIR/python/$state"
if [ ! -f "$folder/built" ]; then
  rm -rf "$folder"
  mkdir -p "$folder/source"
  # Builds of other states, of which another checkout may use one at the moment.
  find "$CARGO_TARGET_DIR/python" -mindepth 1 -maxdepth 1 -mtime +7 -exec rm -rf {} +
  cp -r python/pyproject.toml python/README.md python/src LICENSE-MIT LICENSE-APACHE "$folder/source"
  find "$folder/source" -name __pycache__ -type d -prune -exec rm -rf {} +
  "$generator" python/generate.py "$folder/source/src/undertone/rest"
  # The same sources give the same bytes: the time in the archive is the first that it can state.
  SOURCE_DATE_EPOCH=315532800 "$root/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation --no-index \
    --wheel-dir "$folder/wheel" "$folder/source" >&2
  installed_wheel "$root/bin/python" "$folder/installed" "$folder"/wheel/*.whl
  touch "$folder/built"
fi
wheel=$(echo "$folder"/wheel/*.whl)
[ "${1:-}" = test ] || { echo "$wheel"; exit; }

shift
export UNDERTONE_PROGRAMS="${UNDERTONE_PROGRAMS:-$CARGO_TARGET_DIR/debug}" PYTHONDONTWRITEBYTECODE=1
export MYPYPATH="$folder/source/src" PYTHONPATH="$folder/installed"
mypy=("$root/bin/python" -m mypy --config-file pyproject.toml --cache-dir "$folder/mypy")
failed=0
(cd python && "$generator" -m ruff check --no-cache --quiet . && "$generator" -m ruff format --no-cache --check .) || failed=1
(cd python && "${mypy[@]}" --package undertone && "${mypy[@]}" tests generate.py) || failed=1
(cd python && "$root/bin/python" -m pytest -p no:cacheprovider -q -rfE "$@") || failed=1
exit "$failed"
