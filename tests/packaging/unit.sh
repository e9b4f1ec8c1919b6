#!/usr/bin/env bash
# unit.sh SOURCE_DIR BUILD_DIR LOCKSTOCKD
# The systemd unit is sound and hardened, and its user and directories can be made. 77: systemd's tools are not here.
set -euo pipefail
source=$1 build=$2 lockstockd=$3
for tool in systemd-analyze systemd-sysusers systemd-tmpfiles; do
  command -v "$tool" >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sed "s|^ExecStart=[^ ]*|ExecStart=\"$lockstockd\"|" "$build/packaging/lockstockd.service" >"$work/lockstockd.service"
# Messages about units of this machine are ignored.
cp "$source"/packaging/systemd/*.socket "$work"
systemd-analyze verify "$work/lockstockd.service" "$work"/*.socket >"$work/verify" 2>&1 || true
# The man pages are not installed here; packaging/test-debs.sh has them.
if grep lockstockd "$work/verify" | grep -v "Command 'man "; then exit 1; fi

systemd-analyze security --no-pager --offline=true --threshold=15 "$work/lockstockd.service" >"$work/security" ||
  { grep -v '^✓' "$work/security"; exit 1; }
grep Overall "$work/security"

# Its user, in a system that has root only.
mkdir -p "$work/etc"
systemd-sysusers --root="$work" "$source/packaging/systemd/lockstock.sysusers"
grep -q '^lockstock:x:[0-9]*:[0-9]*:lockstock server:/var/lib/lockstock:/usr/sbin/nologin$' "$work/etc/passwd"
user=$(sed -n 's/^User=//p' "$work/lockstockd.service")
[ "$user" = lockstock ]

# Its directories, as StateDirectory and RuntimeDirectory make them; only root can give them away.
if [ "$(id -u)" -eq 0 ]; then
  mkdir -p "$work/var/lib" "$work/run" "$work/etc/lockstock"
  cp "$source/packaging/systemd/lockstockd.conf" "$work/etc/lockstock"
  systemd-tmpfiles --create --root="$work" "$source/packaging/systemd/lockstock.tmpfiles"
  uid=$(sed -n 's/^lockstock:x:\([0-9]*\):.*/\1/p' "$work/etc/passwd")
  [ "$(stat -c '%a %u' "$work/var/lib/lockstock")" = "700 $uid" ]
  [ "$(stat -c '%a %u' "$work/run/lockstock")" = "755 $uid" ]
  [ "$(stat -c '%a %u' "$work/etc/lockstock/lockstockd.conf")" = "640 0" ]
fi
