# shellcheck shell=bash
# Shared by the scripts beside it: where things are kept, how a script speaks. Sourced, never run.

# One target directory for every checkout of this user, outside the checkout: a fresh clone reuses compiled libraries.
UNDERTONE_CACHE="${UNDERTONE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/undertone}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$UNDERTONE_CACHE/target}"
# The browser's code may come from a second compiler; two compilers must not share a target directory.
WASM_TARGET_DIR="${CARGO_TARGET_DIR%/}-wasm"
WASM_TARGET=wasm32-unknown-unknown
TOOLS="$UNDERTONE_CACHE/tools"
mkdir -p "$CARGO_TARGET_DIR" "$TOOLS"
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

say() { printf '[undertone] %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# The tools that pip and npm bring are pinned by the digests in .ci/pins. A tool's folder has the digest of its pins in its name: other
# pins are another tool.
# `pinned_root NAME PINS`: the folder of the tool with these pins, a file or a folder of files.
pinned_root() { echo "$TOOLS/$1-$(find ".ci/pins/$2" -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum | cut -c1-12)"; }
# `pinned_python ROOT FILE`: makes a Python with the packages of a list, or nothing. What a package needs to be built from its source, where
# it has no wheel, is not pinned.
pinned_python() {
  python3 -m venv "$1" && "$1/bin/pip" install --quiet --require-hashes --requirement ".ci/pins/$2" >&2
}
# `pinned_target PYTHON FOLDER VERSION FILE`: puts the packages of a list into a folder, for a Python of that version.
pinned_target() {
  "$1" -m pip install --quiet --only-binary=:all: --require-hashes --python-version "$3" --target "$2" --requirement ".ci/pins/$4" >&2
}
# `installed_wheel PYTHON FOLDER WHEEL`: puts a wheel that was built here into a folder. Nothing is fetched.
installed_wheel() { "$1" -m pip install --quiet --no-deps --no-index --no-compile --target "$2" "$3" >&2; }
# `pinned_npm ROOT FOLDER`: installs what a lock file of npm names; no script of a package runs.
pinned_npm() {
  mkdir -p "$1" && cp ".ci/pins/$2/package.json" ".ci/pins/$2/package-lock.json" "$1" &&
    timeout 180 npm ci --prefix "$1" --silent --no-audit --no-fund --ignore-scripts >&2
}

# Whether the ordinary compiler can already build for the browser.
wasm_target_installed() {
  local libdir
  libdir=$(rustc --print target-libdir --target "$WASM_TARGET" 2>/dev/null) && [ -d "$libdir" ]
}

# Whether a compiler is as new as the workspace asks.
MIN_RUST=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$checkout/Cargo.toml")
new_enough() {
  printf '%s\n' "$MIN_RUST" "$("$1" --version 2>/dev/null | cut -d' ' -f2)" | sort --version-sort --check=quiet
}

llvm_of() { "$1" --version --verbose | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p'; }

# Debian's second compiler, which comes with the sources of the standard library (see setup.sh), and its linker.
debian_wasm_linker() { echo "/usr/bin/wasm-ld-$(llvm_of /usr/bin/rustc)"; }
debian_wasm_compiler_installed() {
  [ -x /usr/bin/cargo ] && new_enough /usr/bin/rustc && [ -x "$(debian_wasm_linker)" ] &&
    [ -f "$(/usr/bin/rustc --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" ]
}

# Makes the target directory this checkout's until the script ends or calls release_target_dir. Cargo tells checkouts
# apart by the age of their files only, so that a younger build of other sources would pass for ours: what another
# checkout built of our own crates is forgotten; the libraries stay.
claim_target_dir() {
  [ "${UNDERTONE_CLAIMED:-}" != "$CARGO_TARGET_DIR" ] || return 0
  exec 9>"$CARGO_TARGET_DIR/.checkout.lock"
  flock -n 9 || { say "waiting for another checkout's build in $CARGO_TARGET_DIR"; flock 9; }
  export UNDERTONE_CLAIMED="$CARGO_TARGET_DIR"
  local owner="$CARGO_TARGET_DIR/.checkout" folder
  if [ "$(cat "$owner" 2>/dev/null)" != "$checkout" ]; then
    for folder in "$CARGO_TARGET_DIR" "$WASM_TARGET_DIR"; do
      [ ! -d "$folder" ] || find "$folder" -maxdepth 4 -path '*/.fingerprint/undertone-*' -prune -exec rm -rf {} +
    done
    echo "$checkout" >"$owner"
  fi
}

release_target_dir() {
  exec 9>&-
  unset UNDERTONE_CLAIMED
}

# Builds the named programs. Selecting the whole workspace, and its (absent) examples, makes cargo choose the features of
# every library as it does for the tests, so that nothing is compiled a second time in another shape.
build_programs() {
  local program arguments=()
  for program in "$@"; do arguments+=(--bin "$program"); done
  cargo build --locked --workspace --examples "${arguments[@]}"
}

# Compiles for the browser, with the flags of the dashboard's bundle: `compile_wasm build -p NAME ...`, or another of
# cargo's commands. Says which compiler with `wasm_compiler`.
compile_wasm() {
  local command=$1
  shift
  local arguments=("$command" --locked --profile bundle --target "$WASM_TARGET" --target-dir "$WASM_TARGET_DIR" "$@")
  if wasm_target_installed; then
    cargo "${arguments[@]}"
  else
    # The second compiler builds the standard library too, which stable compilers do only when told so.
    RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$(debian_wasm_linker) \
      /usr/bin/cargo "${arguments[@]:0:1}" -Z build-std=std,panic_abort "${arguments[@]:1}"
  fi
}
wasm_compiler() {
  if wasm_target_installed; then
    rustc --version
  else
    debian_wasm_compiler_installed || fail "no compiler for $WASM_TARGET: run .ci/setup.sh"
    /usr/bin/rustc --version
  fi
}
