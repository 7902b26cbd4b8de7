#!/usr/bin/env bash
# Makes Debian packages of the worker, the server and the command line of researchers, and prints their paths:
# `.ci/package.sh [--out FOLDER] [--version V] [--binaries FOLDER] [--compression gzip|xz|none] [worker|server|cli ...]`.
# Programs are built for release, unless a folder with built ones is named. What a package needs of the system is read off its
# program by dpkg-shlibdeps. `lintian` looks at the packages where it is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

out=$CARGO_TARGET_DIR/packages binaries='' compression=xz packages=()
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
while [ $# -gt 0 ]; do
  case "$1" in
    --out | --version | --binaries | --compression)
      [ $# -ge 2 ] || fail "$1 needs a value"
      declare "${1#--}=$2"
      shift 2
      ;;
    worker | server | cli) packages+=("$1") && shift ;;
    *) fail "$1 is none of --out, --version, --binaries, --compression, worker, server, cli" ;;
  esac
done
[ ${#packages[@]} -gt 0 ] || packages=(worker server cli)
# Python makes the bill of materials (`.ci/sbom.py`).
for tool in dpkg-deb dpkg-shlibdeps strip python3; do command -v "$tool" >/dev/null || fail "packages are made with dpkg-dev and python3: install them"; done

# Of the commit, unless the caller names another moment: `dpkg-deb` gives it to files that are younger.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
# Files have one order and messages one language, wherever they are made.
export LC_ALL=C TZ=UTC

# Compiles so that the folders of this machine stand in no program, and the same sources give the same bytes.
build_reproducibly() {
  local sysroot flags
  sysroot=$(rustc --print sysroot)
  flags=(
    "--remap-path-prefix=$PWD=/usr/src/undertone"
    "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/usr/src/cargo"
    "--remap-path-prefix=$sysroot=/usr/src/rust"
    "--remap-path-prefix=$CARGO_TARGET_DIR=/usr/src/target"
  )
  CARGO_INCREMENTAL=0 CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f'; echo "${flags[*]}") \
    CFLAGS="${CFLAGS:-} -ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=/usr/src/cargo -ffile-prefix-map=$CARGO_TARGET_DIR=/usr/src/target" \
    cargo build --locked --release "$@"
}

if [ -z "$binaries" ]; then
  claim_target_dir
  for package in "${packages[@]}"; do
    [ "$package" != server ] || .ci/bundle.sh >&2
    build_reproducibly -p "undertone-$package" >&2
  done
  binaries="$CARGO_TARGET_DIR/release"
fi
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
# What is made here may be entered by all, whatever the umask says.
umask 022
work=$(mktemp -d "${TMPDIR:-/tmp}/undertone-package.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Installs the manual pages and the completions, which the program itself writes.
install_manual() {
  local program=$1 root=$2 page
  mkdir -p "$work/manual" "$root/usr/share/man/man1"
  "$program" manual "$work/manual"
  for page in "$work/manual"/*.1; do gzip -9nc "$page" >"$root/usr/share/man/man1/$(basename "$page").gz"; done
  install -d "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" "$root/usr/share/fish/vendor_completions.d"
  "$program" completions bash >"$root/usr/share/bash-completion/completions/undertone"
  "$program" completions zsh >"$root/usr/share/zsh/vendor-completions/_undertone"
  "$program" completions fish >"$root/usr/share/fish/vendor_completions.d/undertone.fish"
}

make_package() {
  local package=$1 name="undertone-$1" crate="undertone-$1" from="packaging/$1" root="$work/$1" program script
  [ "$package" != cli ] || name=undertone
  program="$binaries/$name"
  [ -x "$program" ] || fail "$program is not built"

  install -D -m 0755 "$program" "$root/usr/bin/$name"
  strip --strip-unneeded "$root/usr/bin/$name"
  mkdir -p "$root/DEBIAN" "$work/debian"
  if [ "$package" = cli ]; then
    install_manual "$program" "$root"
  else
    install -D -m 0644 "$from/$name.service" "$root/lib/systemd/system/$name.service"
    install -D -m 0644 "$from/$name.sysusers" "$root/usr/lib/sysusers.d/$name.conf"
    install -D -m 0644 "$from/$name.tmpfiles" "$root/usr/lib/tmpfiles.d/$name.conf"
    # It may hold passwords. Its group is set by the tmpfiles entry, once the user is there.
    install -D -m 0640 "$from/$name.default" "$root/etc/default/$name"
    for script in postinst prerm postrm; do install -m 0755 "$from/$script" "$root/DEBIAN/$script"; done
  fi
  install -D -m 0644 packaging/copyright "$root/usr/share/doc/$name/copyright"
  install -D -m 0644 "$from/README.Debian" "$root/usr/share/doc/$name/README.Debian"
  .ci/sbom.py "$crate" "$version" >"$root/usr/share/doc/$name/sbom.cdx.json"
  chmod 0644 "$root/usr/share/doc/$name/sbom.cdx.json"
  printf '%s (%s) unstable; urgency=medium\n\n  * Version %s.\n\n -- Undertone <maintainers@undertone.example>  %s\n' \
    "$name" "$version" "$version" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$root/usr/share/doc/$name/changelog.gz"
  if [ "$package" = server ]; then
    install -D -m 0644 "$from/server.toml" "$root/etc/undertone/server.toml"
    install -D -m 0644 -t "$root/usr/share/doc/$name/monitoring" "$from"/monitoring/*
    if [ -d app/dist ]; then
      mkdir -p "$root/usr/share/$name"
      cp -r app/dist "$root/usr/share/$name/dist"
      chmod -R u=rwX,go=rX "$root/usr/share/$name"
    else
      say "app/dist is not built: the package has no dashboard"
    fi
  fi

  [ ! -d "$root/etc" ] || (cd "$root" && find etc -type f -printf '/%p\n' | sort) >"$root/DEBIAN/conffiles"
  printf 'Source: %s\n\nPackage: %s\nArchitecture: any\n' "$name" "$name" >"$work/debian/control"
  local depends
  depends=$(cd "$work" && dpkg-shlibdeps -O "$root/usr/bin/$name" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
  [ -n "$depends" ] || fail "what $name needs of the system cannot be told"
  sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$(dpkg --print-architecture)/" -e "s/@DEPENDS@/$depends/" \
    -e "s/@SIZE@/$(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)/" "$from/control" >"$root/DEBIAN/control"
  (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"

  local file
  file="$out/${name}_${version}_$(dpkg --print-architecture).deb"
  # Also what is older than the commit, which `dpkg-deb` leaves as it is.
  find "$root" -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
  dpkg-deb --root-owner-group "-Z$compression" --build "$root" "$file" >/dev/null
  if [ "$compression" != none ] && command -v lintian >/dev/null; then
    # The language's libraries are linked in; there is no manual but the program's own.
    lintian --fail-on error --suppress-tags no-manual-page,embedded-library "$file" >&2 || fail "lintian found errors in $file"
  fi
  echo "$file"
}

for package in "${packages[@]}"; do make_package "$package"; done
