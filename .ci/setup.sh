#!/usr/bin/env bash
# Installs what the build, the tests and the demo need beyond Rust, on Debian. Installs only what is missing, says what
# it installs, and does nothing the second time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

RUSTUP_SECONDS=90

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else fail "need root to run: $* (become root, or install sudo, or run that command yourself)"
  fi
}

apt_install() {
  [ $# -gt 0 ] || return 0
  command -v apt-get >/dev/null || fail "missing: $*. This is not Debian: install their like by hand, then run this again."
  say "installing with apt-get: $*"
  apt_quietly install -y --no-install-recommends "$@" || { apt_refresh && apt_quietly install -y --no-install-recommends "$@"; } ||
    fail "apt-get could not install: $*"
}

# Package lists are fetched only where those at hand do not do.
apt_refresh() {
  say "fetching package lists"
  apt_quietly update
}

apt_quietly() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" >&2; }

package_installed() { [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null)" = 'ii ' ]; }

{ command -v cargo && new_enough rustc; } >/dev/null || fail "install Rust $MIN_RUST or newer first: https://rustup.rs"

# rustup's minimal profile leaves these out.
cargo clippy --version >/dev/null 2>&1 || rustup component add clippy >&2
cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt >&2

missing=()
command -v cc >/dev/null || missing+=(build-essential)
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
command -v chromium >/dev/null || missing+=(chromium)
command -v chromedriver >/dev/null || missing+=(chromium-driver)
command -v flite >/dev/null || missing+=(flite)
command -v espeak-ng >/dev/null || missing+=(espeak-ng)
command -v openssl >/dev/null || missing+=(openssl)
# A hardware module in software, for the tests of external signers.
package_installed softhsm2 || missing+=(softhsm2)
# OCI images are made and run with these.
for tool in mmdebstrap umoci runc; do command -v "$tool" >/dev/null || missing+=("$tool"); done
package_installed fonts-dejavu-core || missing+=(fonts-dejavu-core)
apt_install "${missing[@]}"

# The browser's target: of the ordinary compiler where it has it or can get it, of Debian's second compiler otherwise.
if ! wasm_target_installed && ! debian_wasm_compiler_installed; then
  if command -v rustup >/dev/null; then
    say "asking rustup for $WASM_TARGET (at most $RUSTUP_SECONDS s)"
    timeout "$RUSTUP_SECONDS" rustup target add "$WASM_TARGET" >&2 || say "rustup could not bring it"
  fi
  if ! wasm_target_installed; then
    apt_install rustc-web cargo-web rust-web-src
    # Old package lists may name an old compiler.
    new_enough /usr/bin/rustc || { apt_refresh && apt_install rustc-web cargo-web rust-web-src; }
    apt_install "lld-$(llvm_of /usr/bin/rustc)"
    debian_wasm_compiler_installed || fail "no compiler for $WASM_TARGET: Debian's rustc-web is older than $MIN_RUST"
  fi
fi
