#!/usr/bin/env bash
# conf.sh SOURCE_DIR LOCKSTOCKD
# The packaged file of settings is good, names every setting, and its commented lines are the defaults.
set -euo pipefail
conf=$1/packaging/systemd/lockstockd.conf lockstockd=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$lockstockd" --config "$conf" --check-config
settings() { sed -n 's/^ *--\([a-z-]*\) .*/\1/p' | grep -vxE 'config|check-config|print-config|help|version' | sort; }
"$lockstockd" --help | settings >"$work/all"
sed -n 's/^#\{0,1\}\([a-z-]*\) = .*/\1/p' "$conf" | sort >"$work/named"
diff "$work/all" "$work/named"

# Uncommented, the settings are the defaults; examples are in <>.
sed -n 's/^#\([a-z-]* = [^<]*\)$/\1/p' "$conf" >"$work/defaults"
[ -s "$work/defaults" ]
"$lockstockd" --print-config | grep -v '^#' >"$work/without"
"$lockstockd" --config "$work/defaults" --print-config | grep -v '^#' | diff "$work/without" -
