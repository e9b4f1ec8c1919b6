#!/bin/sh
# mariadb.sh DIR: runs a private MariaDB, with its data and its only socket in DIR, until it is killed. It does not touch the
# system's database, and only this user can reach it.
set -eu
dir=$1
PATH="$PATH:/usr/sbin:/sbin"
user=
[ "$(id -u)" -ne 0 ] || user=--user=root # else it refuses to run as root

umask 077
mkdir -p "$dir"
if [ ! -d "$dir/data/mysql" ]; then
  # shellcheck disable=SC2086
  mariadb-install-db --no-defaults $user --datadir="$dir/data" --auth-root-authentication-method=normal \
    --skip-test-db --innodb-log-file-size=4M >"$dir/install.log" 2>&1 || { cat "$dir/install.log" >&2; exit 1; }
fi
# shellcheck disable=SC2086
exec mariadbd --no-defaults $user --datadir="$dir/data" --socket="$dir/sock" --pid-file="$dir/pid" \
  --skip-networking --skip-log-bin --skip-name-resolve --performance-schema=off --max-connections=32 \
  --innodb-buffer-pool-size=8M --innodb-log-file-size=4M --innodb-log-buffer-size=2M \
  --key-buffer-size=1M --aria-pagecache-buffer-size=1M
