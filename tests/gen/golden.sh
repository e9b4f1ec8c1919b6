#!/usr/bin/env bash
# promise CH4
# promise CH14
# promise GN1
# golden.sh GENERATOR LOCKSTOCK_PROTO_DIR [--update]
# The headers of golden/expected are what is made of golden/*.proto, to the byte; --update makes them so. test_generated
# runs what is in the sources.
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
failed=0
while IFS= read -r file; do
  if [ "${3:-}" = --update ]; then
    cp "$work/out/$file" "$golden/expected/$file"
  fi
  diff -u "$golden/expected/$file" "$work/out/$file" || failed=1
done < <(cd "$golden/expected" && find . -type f -printf '%P\n')
exit $failed
