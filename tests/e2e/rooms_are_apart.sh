#!/bin/sh
# rooms_are_apart.sh NINJA BUILD_DIR: fails when a file was compiled with a header that its room may not
# know, however deep. The rules are those of docs/architecture.md; they run one way, so that no files of
# different rooms include each other.
set -eu
deps=$(mktemp)
trap 'rm -f "$deps"' EXIT
# A line for each pair: the room of a source, its object, a header.
"$1" -C "$2" -t deps | awk '
  /^[^ ]/ {
    object = $1; room = ""
    sub(/:$/, "", object)
    if (object !~ /^(base|rpc|net|standard|console|client|host|server|cli)\/.*\.c\.o$/) next
    room = object
    sub(/\/.*/, "", room)
    if (object ~ /^server\/services\/|\/services\/[a-z_]*\.c\.o$/) room = "services"
    if (object ~ /^server\/store\/|\/store\/[a-z_]*\.c\.o$/) room = "store"
    if (object ~ /^server\/machine\//) room = "machine"
    if (object ~ /^server\/ensemble\//) room = "ensemble"
    if (object ~ /^server\/quorum\//) room = "quorum"
    if (object ~ /\/calls\/[a-z_]*\.c\.o$/) room = "calls"
    if (object ~ /\/host\/guard\//) room = "guard"
    if (object ~ /^client\/.*\/wire\//) room = "wire"
    if (object ~ /\/json\/[a-z0-9_]*\.c\.o$/) room = "json"
  }
  room != "" && sub(/^ +/, "") { print room, object, $0 }' > "$deps"
failed=0
# forbid ROOM OURS [OTHERS [BUT]]: no file of the room may know a header of those directories of the project,
# nor one of those of the system, unless its path has BUT in it.
forbid() {
  if ! grep -q "^$1 " "$deps"; then
    echo "nothing of $1 is known: build first"
    failed=1
  fi
  bad=$(awk -v room="$1" -v ours="(^|/)($2)/([a-z_]+/)*[a-z_]+[.]h$" -v others="/include/(${3:-none})" \
    -v but="${4:- }" '$1 == room && index($3, but) == 0 && ($3 ~ /^\/usr\// ? $3 ~ others : $3 ~ ours) { print $2 ": " $3 }' "$deps" | sort -u)
  if [ -n "$bad" ]; then
    printf '%s must not include:\n%s\n' "$1" "$bad"
    failed=1
  fi
}
forbid base "rpc|net|standard|client|host|server" "nng/|hiredis/|uv(/|[.]h)|nghttp2/|openssl/|jansson|protobuf-c"
forbid rpc "net|standard|client|host|server" "nng/|hiredis/|uv(/|[.]h)|nghttp2/|openssl/|jansson"
forbid json "net|standard|client|host|server" "nng/|hiredis/|uv(/|[.]h)|nghttp2/|openssl/"
forbid net "standard|client|host|server" "nng/|hiredis/"
forbid standard "client|host|server" "nng/|hiredis/"
forbid console "client|host|server" "nng/|hiredis/|uv(/|[.]h)|nghttp2/"
forbid client "standard|host|server" "hiredis/"
forbid wire "standard|host|server|client/(call|lease)" "hiredis/"
forbid cli "net|standard|client/(loop|wire|call|lease)|host|server" "nng/|hiredis/|uv(/|[.]h)|openssl/"
forbid host "client|server" "nng/|hiredis/" client/include/lockstock/
forbid guard "net|standard|client|server" "nng/|hiredis/|uv(/|[.]h)|nghttp2/" client/include/lockstock/
forbid server "client|host" "nng/|zookeeper/"
forbid calls "standard|client|host|server/(machine|ensemble|quorum)" "nng/|hiredis/"
forbid store "standard|client|host|server/(calls|services|machine|ensemble|quorum)" "nng/|zookeeper/"
forbid machine "net|standard|client|host|server/(calls|services|ensemble|quorum)" "nng/|hiredis/|uv(/|[.]h)|zookeeper/"
forbid ensemble "standard|client|host|server/(calls|services|store|machine|quorum)" "nng/|hiredis/"
forbid quorum "standard|client|host|server/calls" "nng/|hiredis/|zookeeper/|lua"
forbid services "net|standard|client|host|server/calls" "nng/|hiredis/|uv(/|[.]h)|openssl/"
exit $failed
