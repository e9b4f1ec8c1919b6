#!/usr/bin/env bash
# golden.sh GENERATOR LOCKSTOCK_PROTO_DIR [--update]
# What is made of golden/*.proto is golden/expected, to the byte; --update makes it so.
set -euo pipefail
generator=$1 protos=$2
golden=$(cd -- "$(dirname -- "$0")" && pwd)/golden
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

generate() { # parameter
  rm -rf "$work/out"
  mkdir "$work/out"
  (cd "$golden" && find . -name '*.proto' -printf '%P\n' | sort |
    xargs protoc "--plugin=protoc-gen-lockstock=$generator" -I . -I "$protos" "--lockstock_out=$1:$work/out")
}

files() {
  (cd "$work/out" && find . -type f -printf '%P\n' | sort)
}

# Each part alone is that part of the whole.
generate ''
files >"$work/all"
for part in types client server; do
  generate "$part"
  files >>"$work/parts"
done
diff -u "$work/all" <(sort "$work/parts")

generate types,client,server
find "$work/out" -name '*.pb-c.*' -delete # protoc-c's own
if [ "${3:-}" = --update ]; then
  rm -rf "$golden/expected"
  cp -r "$work/out" "$golden/expected"
fi
diff -ru "$golden/expected" "$work/out"
