#!/usr/bin/env bash
# Tries the packages under a real systemd, in a Debian system of their own that is booted in namespaces of this machine: installs,
# starts, works, contains, stops, upgrades, reboots, removes and purges them, and prints each claim with `ok` or `FAILED`.
# `.ci/boot.sh [--binaries FOLDER]`: programs are built for release, unless a folder with built ones is named.
#
# Needs root on Debian, and a kernel that lets it make namespaces (most containers do not). Installs debootstrap and
# systemd-container where they are missing, fetches a small Debian once (some 400 MB in the cache), and takes at most 2 GB below
# TMPDIR while it runs. Exits with 1 when a claim does not hold, with 2 when it cannot run here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

unable() { say "the packages cannot be tried here: $*"; exit 2; }

binaries=()
case "${1:-}" in
  '') ;;
  --binaries)
    [ $# -eq 2 ] || fail "--binaries needs a folder"
    binaries=(--binaries "$2")
    ;;
  *) fail "$1 is not --binaries" ;;
esac

[ "$(id -u)" = 0 ] || unable "booting a system needs root"
command -v apt-get >/dev/null || unable "this is not Debian"
command -v python3 >/dev/null || unable "python3 is missing"
unshare --mount --pid --fork --uts --ipc --net --cgroup true 2>/dev/null || unable "the kernel makes no namespaces for this process"
missing=()
command -v debootstrap >/dev/null || missing+=(debootstrap)
command -v systemd-nspawn >/dev/null || missing+=(systemd-container)
if [ ${#missing[@]} -gt 0 ]; then
  say "installing with apt-get: ${missing[*]}"
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >&2 || unable "apt-get could not install ${missing[*]}"
fi

# The system is of this machine's release, whose libraries the programs were built against. What the packages do not need, but the
# trial: a way in for administrators, a client, and the programs that a worker starts.
. /etc/os-release
base="$TOOLS/debian-$VERSION_CODENAME-1"
if [ ! -d "$base" ]; then
  say "fetching Debian $VERSION_CODENAME, once"
  rm -rf "$base.part"
  debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,ca-certificates,sudo,curl,procps,python3,espeak-ng "$VERSION_CODENAME" "$base.part" >"$base.log" 2>&1 ||
    unable "debootstrap could not make a system: see $base.log"
  aligner=$(.ci/aligner.sh) || unable "no PocketSphinx"
  python=$(cd "$base.part/usr/lib" && echo python3.[0-9]*)
  pinned_target "$aligner" "$base.part/usr/local/lib/$python/dist-packages" "${python#python}" pocketsphinx.txt ||
    unable "pip could not bring pocketsphinx"
  rm -rf "$base.part"/var/cache/apt/archives/*.deb "$base.log"
  : >"$base.part/etc/machine-id"
  mv "$base.part" "$base"
fi

umask 022
work=$(mktemp -d "${TMPDIR:-/tmp}/undertone-boot.XXXXXX")
trap 'rm -rf "$work"; rmdir /run/systemd/nspawn/propagate/undertone-boot 2>/dev/null || true' EXIT
cp -a --reflink=auto "$base" "$work/root"
echo undertone-boot >"$work/root/etc/hostname"
printf '127.0.0.1 localhost undertone-boot\n::1 localhost\n' >"$work/root/etc/hosts"

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
packages=()
for made in "$version" "$version.1"; do
  .ci/package.sh --out "$work/root/opt" "${binaries[@]}" --compression none --version "$made" server worker >"$work/made"
  while read -r file; do packages+=("/opt/$(basename "$file")"); done <"$work/made"
done

status=0
python3 -B .ci/boot/try.py "$work/root" "$work/console" "${packages[@]}" || status=$?
[ "$status" != 2 ] || { cat "$work/console" >&2; unable "see above"; }
exit "$status"
