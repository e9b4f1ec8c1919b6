#!/usr/bin/env bash
# packaging/oci/build.sh DEBS OUT
#
# Makes an OCI image of the packages in the directory DEBS: OUT, an image layout with the tag `lockstock`. Needs neither
# network nor root: it copies redis-server and the shared libraries of this machine, which runs Debian 12. The image contains
# nothing else, not even a shell. The same packages on the same machine make the same image.
#
#   skopeo copy oci:OUT:lockstock docker-daemon:lockstock:latest      or podman load, or a registry
#
# Needs umoci and redis-server.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
. "$root/packaging/install.sh"
[ $# -eq 2 ] || { echo "usage: ${0##*/} DEBS OUT" >&2; exit 2; }
debs=$1 out=$2
user=7700 # of the image; it owns the volume
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
image="$work/root"

# ---- files -------------------------------------------------------------------------------

mkdir -p "$image/usr/bin" "$image/usr/lib" "$image/usr/lib64" "$image/etc" "$image/proc" "$image/var/lib/dpkg/status.d"
ln -s usr/bin "$image/bin"
ln -s usr/lib "$image/lib"
ln -s usr/lib64 "$image/lib64"
version=
for package in lockstock-server lockstock-tools 'liblockstock[0-9]*'; do
  deb=$(find "$debs" -maxdepth 1 -name "${package}_*.deb")
  [ -f "$deb" ] || die "$debs has not one package $package"
  package=$(dpkg-deb -f "$deb" Package)
  dpkg-deb -x "$deb" "$image"
  dpkg-deb -f "$deb" >"$image/var/lib/dpkg/status.d/$package"
  version=$(dpkg-deb -f "$deb" Version)
done
epoch=${SOURCE_DATE_EPOCH:-$(date -d "$(zcat "$image/usr/share/doc/lockstock-server/changelog.Debian.gz" |
  sed -n '/^ -- /{s/.*>  //p;q}')" +%s)}
# Files for machines with an init, and documentation, are left out.
rm -rf "$image/etc/lockstock" "$image/usr/lib/systemd" "$image/usr/lib/sysusers.d" "$image/usr/lib/tmpfiles.d" \
  "$image/usr/bin/lockstock-bench"
find "$image/usr/share" -type f ! -name copyright -delete
find "$image/usr/share" -depth -type d -empty -delete

# Keeps the package and the licence of each file of this machine; scanners read status.d.
take() { # a file of this machine
  local real package
  # Debian's own lists know files below /lib by that name.
  real=$(readlink -f "$1")
  package=$(dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "$real" 2>/dev/null || dpkg-query -S "${real#/usr}") ||
    die "$1 is of no package"
  package=${package%%:*}
  install -D -m 755 "$real" "$image$1"
  dpkg-query -s "$package" >"$image/var/lib/dpkg/status.d/$package"
  install -D -m 644 "$(readlink -f "/usr/share/doc/$package/copyright")" "$image/usr/share/doc/$package/copyright"
}

needs() { # program...
  LD_LIBRARY_PATH=$(dirname "$(find "$image/usr/lib" -name 'liblockstock.so.?*' -print -quit)") ldd "$@" |
    sed -n -e 's/.* => \(\/[^ ]*\) .*/\1/p' -e 's/^\t\(\/[^ ]*\) (.*/\1/p' | grep -v "^$image" | sort -u
}

take /usr/bin/redis-server
while read -r library; do
  take "$library"
done < <(needs "$image/usr/bin/lockstockd" "$image/usr/bin/lockstock" "$image/usr/bin/redis-server")

# The certificates that this machine trusts, for rediss:// without --store-ca.
if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
  install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$image/usr/lib/ssl/cert.pem"
  install -D -m 644 /usr/share/doc/ca-certificates/copyright "$image/usr/share/doc/ca-certificates/copyright"
fi
printf 'root:x:0:0:root:/:/nologin\nlockstock:x:%d:%d:lockstock server:/var/lib/lockstock:/nologin\n' $user $user >"$image/etc/passwd"
printf 'root:x:0:\nlockstock:x:%d:\n' $user >"$image/etc/group"
printf 'hosts: files dns\n' >"$image/etc/nsswitch.conf"

# ---- the image ---------------------------------------------------------------------------

pack() { # owner mode-of-all files...
  tar -C "$image" --append -f "$work/layer.tar" --sort=name --format=gnu --no-recursion --mtime="@$epoch" --numeric-owner \
    --owner="$1" --group="$1" "${@:2}"
}
chmod -R u=rwX,go=rX "$image"
mapfile -t files < <(cd "$image" && find . -mindepth 1 | LC_ALL=C sort)
pack 0 "${files[@]}"
mkdir -m 700 "$image/var/lib/lockstock"
mkdir -p "$image/run/lockstock"
mkdir "$image/tmp"
chmod 1777 "$image/tmp"
pack 0 ./run ./tmp
pack $user ./run/lockstock ./var/lib/lockstock

created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
rm -rf "$out"
umoci init --layout "$out"
umoci new --image "$out:lockstock"
umoci raw add-layer --image "$out:lockstock" --history.created "$created" --history.author lockstock \
  --history.created_by packaging/oci/build.sh "$work/layer.tar"
umoci config --image "$out:lockstock" --no-history --created "$created" --author lockstock --architecture "$(dpkg --print-architecture)" --os linux \
  --config.user "$user:$user" --config.workingdir /var/lib/lockstock --config.volume /var/lib/lockstock \
  --config.exposedports 7700/tcp --config.exposedports 7701/tcp --config.exposedports 7702/tcp --config.stopsignal SIGTERM \
  --config.env PATH=/usr/bin --config.env LOCKSTOCK_STORE=embedded:/var/lib/lockstock/store \
  --config.entrypoint /usr/bin/lockstockd --config.label "org.opencontainers.image.version=$version" \
  --config.label org.opencontainers.image.licenses=Apache-2.0 --config.label org.opencontainers.image.title=lockstock
umoci gc --layout "$out"
