#!/usr/bin/env bash
# Makes OCI images of the server and the worker from their Debian packages, and prints their paths:
# `.ci/image.sh [--out FOLDER] [--version V] [--binaries FOLDER] [--packages FOLDER] [worker|server ...]`.
# Nothing is pulled: the lower layer is a small Debian from the mirrors of this machine, and the upper one is the package. An image is
# a file in the OCI layout, which `podman load`, `docker load` and `skopeo copy oci-archive:` read. `SHA256SUMS` beside them lists the
# files; with UNDERTONE_SIGNING_KEY, an SSH private key, it is signed (`ssh-keygen -Y verify` checks it).
#
# Installs mmdebstrap and umoci on Debian where they are missing, and makes the lower layer once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/common.sh

out=$CARGO_TARGET_DIR/images binaries='' packages='' images=()
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
while [ $# -gt 0 ]; do
  case "$1" in
    --out | --version | --binaries | --packages)
      [ $# -ge 2 ] || fail "$1 needs a value"
      declare "${1#--}=$2"
      shift 2
      ;;
    worker | server) images+=("$1") && shift ;;
    *) fail "$1 is none of --out, --version, --binaries, --packages, worker, server" ;;
  esac
done
[ ${#images[@]} -gt 0 ] || images=(worker server)

missing=()
for tool in mmdebstrap umoci; do command -v "$tool" >/dev/null || missing+=("$tool"); done
if [ ${#missing[@]} -gt 0 ]; then
  { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; } || fail "images are made with ${missing[*]}: install them"
  say "installing with apt-get: ${missing[*]}"
  apt_get() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >&2; }
  apt_get install -y --no-install-recommends "${missing[@]}" || { apt_get update && apt_get install -y --no-install-recommends "${missing[@]}"; }
fi

export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
export LC_ALL=C TZ=UTC
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
work=$(mktemp -d "${TMPDIR:-/tmp}/undertone-image.XXXXXX")
trap 'rm -rf "$work"' EXIT
umask 022

if [ -z "$packages" ]; then
  packages=$work/packages
  .ci/package.sh --out "$packages" --version "$version" ${binaries:+--binaries "$binaries"} --compression none "${images[@]}" >/dev/null
fi

# `base_layer PACKAGES`: the path of a Debian of this machine's release with these packages, without manuals and translations.
base_layer() {
  local codename needed=$1 file
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  file=$TOOLS/image-$codename-$(echo "$needed" | sha256sum | cut -c1-12).tar
  if [ ! -f "$file" ]; then
    say "making a small Debian $codename, once"
    mmdebstrap --quiet --variant=essential --include="$needed" \
      --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
      --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
      "$codename" "$file.part.tar" >&2 && mv "$file.part.tar" "$file" || { rm -f "$file.part.tar"; fail "mmdebstrap could not make a Debian"; }
  fi
  echo "$file"
}

# The user of the images. A folder that is mounted belongs to this number.
USER_ID=10001

make_image() {
  local package=$1 name="undertone-$1" layout="$work/$1.layout" root="$work/$1.root" deb base needed file
  deb=$(find "$packages" -maxdepth 1 -name "${name}_*.deb" | LC_ALL=C sort | tail -1)
  [ -n "$deb" ] || fail "$packages has no package of the $package"
  # Services, users and folders are made by the image, so systemd is not needed.
  needed=$(dpkg-deb -f "$deb" Depends | tr ',' '\n' | sed 's/[|(].*//; s/ //g' | grep -v -e '^systemd' -e '^init-system-helpers$' | LC_ALL=C sort -u | paste -sd,)
  base=$(base_layer "$needed")

  dpkg-deb -x "$deb" "$root"
  rm -rf "$root/lib/systemd" "$root/usr/lib/sysusers.d" "$root/usr/lib/tmpfiles.d" "$root/etc/default"
  rmdir --ignore-fail-on-non-empty "$root/lib" "$root/usr/lib" 2>/dev/null || true
  mkdir -p "$root/etc"
  tar -xOf "$base" ./etc/passwd >"$root/etc/passwd"
  tar -xOf "$base" ./etc/group >"$root/etc/group"
  echo "$name:x:$USER_ID:$USER_ID:Undertone $package:/var/lib/$name:/usr/sbin/nologin" >>"$root/etc/passwd"
  echo "$name:x:$USER_ID:" >>"$root/etc/group"
  mkdir -p "$work/$1.state/var/lib/$name"
  chmod 0700 "$work/$1.state/var/lib/$name"
  local layer=(tar --sort=name --format=gnu --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -f "$work/$1.tar")
  "${layer[@]}" --owner=0 --group=0 -C "$root" -c .
  "${layer[@]}" --owner=$USER_ID --group=$USER_ID -C "$work/$1.state" -r "./var/lib/$name"

  umoci init --layout "$layout"
  umoci new --image "$layout:$version"
  umoci raw add-layer --image "$layout:$version" --history.created "$created" --history.created_by "Debian with $needed" "$base"
  umoci raw add-layer --image "$layout:$version" --history.created "$created" --history.created_by "$name $version" "$work/$1.tar"
  local settings=(
    --created "$created" --config.user "$USER_ID:$USER_ID" --config.workingdir "/var/lib/$name" --config.volume "/var/lib/$name"
    --config.entrypoint "/usr/bin/$name" --config.stopsignal SIGTERM
    --config.label "org.opencontainers.image.title=$name" --config.label "org.opencontainers.image.version=$version"
    --config.label 'org.opencontainers.image.licenses=MIT OR Apache-2.0'
    --history.created "$created" --history.created_by "settings of $name"
  )
  if [ "$package" = server ]; then
    settings+=(
      --config.cmd --config --config.cmd /etc/undertone/server.toml --config.cmd serve
      --config.env "UNDERTONE_DATA_DIR=/var/lib/$name" --config.env "UNDERTONE_DIST=/usr/share/$name/dist"
      --config.env UNDERTONE_HTTP=0.0.0.0:8420 --config.env UNDERTONE_GRPC=0.0.0.0:8421
      --config.exposedports 8420/tcp --config.exposedports 8421/tcp
    )
  else
    settings+=(--config.cmd run --config.env "UNDERTONE_SITE=/var/lib/$name")
  fi
  umoci config --image "$layout:$version" "${settings[@]}"
  umoci gc --layout "$layout"

  file="$out/${name}_${version}_$(dpkg --print-architecture).oci.tar"
  tar --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$layout" -cf "$file" .
  echo "$file"
}

for image in "${images[@]}"; do make_image "$image"; done
(cd "$out" && sha256sum -- *.oci.tar >SHA256SUMS)
echo "$out/SHA256SUMS"
if [ -n "${UNDERTONE_SIGNING_KEY:-}" ]; then
  rm -f "$out/SHA256SUMS.sig"
  ssh-keygen -q -Y sign -n undertone -f "$UNDERTONE_SIGNING_KEY" "$out/SHA256SUMS" 2>/dev/null || fail "UNDERTONE_SIGNING_KEY cannot sign"
  echo "$out/SHA256SUMS.sig"
fi
