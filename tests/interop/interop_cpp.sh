#!/usr/bin/env bash
# promise GC12
# interop_cpp.sh INTEROP_CHANNEL PROTO_DIR: the channel against a gRPC C++ server, which is built here. 77: it cannot be.
set -euo pipefail
channel=$1 protos=$2
plugin=$(command -v grpc_cpp_plugin || true)
if [ -z "$plugin" ] || ! command -v g++ >/dev/null || ! pkg-config --exists grpc++ protobuf; then
  echo "skipped: needs the packages g++, libgrpc++-dev and protobuf-compiler-grpc"
  exit 77
fi
dir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
cp "$(dirname -- "$0")/interop_cpp.cc" "$dir"
protoc "-I$protos" "--cpp_out=$dir" "--grpc_out=$dir" "--plugin=protoc-gen-grpc=$plugin" \
  grpc/testing/messages.proto grpc/testing/unary.proto
read -ra flags <<<"$(pkg-config --cflags --libs grpc++ protobuf)"
(cd "$dir" && g++ -std=c++17 -I. -o server interop_cpp.cc grpc/testing/*.cc "${flags[@]}")
mkfifo "$dir/port"
"$dir/server" >"$dir/port" &
pid=$!
read -r port <"$dir/port"
"$channel" "grpc://127.0.0.1:$port"
