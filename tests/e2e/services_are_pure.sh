#!/bin/sh
# services_are_pure.sh NINJA BUILD_DIR: fails when a file of server/services was
# compiled with a header of nng, hiredis or libuv, however deep.
set -eu
headers=$("$1" -C "$2" -t deps | awk '/^[^ ]/ { ours = /server\/services\/.*\.o:/ } ours && sub(/^ +/, "") { print }')
if [ -z "$headers" ]; then
  echo "no dependencies of server/services are known: build first"
  exit 1
fi
impure=$(printf '%s\n' "$headers" | sort -u | grep -E '/include/(nng/|hiredis/|uv(/|\.h))') || impure=
if [ -n "$impure" ]; then
  printf 'server/services must not include:\n%s\n' "$impure"
  exit 1
fi
