#!/usr/bin/env bash
# embedded.sh LOCKSTOCK PROJECT CFLAGS
# A project builds and runs with lockstock's client as a part of itself, in a path with a space, and
# needs none of the server's libraries.
set -euo pipefail
lockstock=$1 project=$2 flags=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ln -s "$lockstock" "$work/lock stock"
cmake -S "$project" -B "$work/build" "-DFETCHCONTENT_SOURCE_DIR_LOCKSTOCK=$work/lock stock" \
  "-DCMAKE_C_FLAGS=$flags"
cmake --build "$work/build" --target visit -j 2
"$work/build/visit"
! grep -qE 'libuv|hiredis|inih' <(ldd "$work/build/visit")
