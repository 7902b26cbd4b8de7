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

say() { printf '[undertone] %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# Whether the ordinary compiler can already build for the browser.
wasm_target_installed() {
  local libdir
  libdir=$(rustc --print target-libdir --target "$WASM_TARGET" 2>/dev/null) && [ -d "$libdir" ]
}

# The linker that belongs to Debian's second compiler, or nothing.
debian_wasm_linker() { compgen -G '/usr/bin/wasm-ld-[0-9]*' | sort --version-sort | tail -1; }

# Whether Debian's second compiler with the library sources is there (see setup.sh).
debian_wasm_compiler_installed() {
  [ -x /usr/bin/rustc ] && [ -x /usr/bin/cargo ] && [ -n "$(debian_wasm_linker)" ] &&
    [ -f "$(/usr/bin/rustc --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" ]
}
