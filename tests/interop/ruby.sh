#!/usr/bin/env bash
# ruby.sh INTEROP_SERVER: gRPC's interoperability client in Ruby, as Debian's ruby-grpc has
# it, against our engine. 77: it is not here.
set -euo pipefail
server=$1
client=$(find /usr/lib -path "*/gems/grpc-*/src/ruby/pb/test/client.rb" 2>/dev/null | head -n 1)
if [ -z "$client" ] || ! ruby -e 'require "grpc"; require "googleauth"' 2>/dev/null; then
  echo "skipped: needs the packages ruby-grpc and ruby-googleauth"
  exit 77
fi

dir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
failed=0

serve() { # the server's arguments
  : >"$dir/port"
  "$server" "$@" >"$dir/port" &
  pid=$!
  until [ -s "$dir/port" ]; do
    kill -0 "$pid" || exit 1
  done
  port=$(cat "$dir/port")
}

stop() {
  kill -TERM "$pid"
  wait "$pid" || failed=1 # 1: something of it is left
  pid=
}

run() { # case, the client's arguments
  if timeout 60 ruby "$client" --server_host=127.0.0.1 --server_port="$port" --test_case="$1" "${@:2}" >"$dir/log" 2>&1; then
    echo "$*: passed"
  else
    echo "$*: FAILED"
    tail -n 20 "$dir/log"
    failed=1
  fi
}

serve
for name in empty_unary large_unary unimplemented_method unimplemented_service cancel_after_begin \
  timeout_on_sleeping_server custom_metadata status_code_and_message client_compressed_unary \
  client_streaming client_compressed_streaming server_streaming ping_pong empty_stream cancel_after_first_response; do
  run "$name" --use_tls=false
done
stop

# With the certificate that the gem has, until that ends in 2030.
certificates=$(dirname "$client")/../../spec/testdata
if openssl x509 -in "$certificates/server1.pem" -noout -checkend 600 >/dev/null 2>&1; then
  serve "$certificates/server1.pem" "$certificates/server1.key"
  for name in empty_unary large_unary custom_metadata ping_pong; do
    run "$name" --use_tls=true --use_test_ca=true --server_host_override=foo.test.google.fr
  done
  stop
fi
exit "$failed"
