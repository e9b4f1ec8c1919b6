#!/bin/sh
# Writes the stubs of this module, lockstock/v1 and lockstock/rpc/v1. Needs protoc, protoc-gen-go and protoc-gen-go-grpc.
set -eu
cd "$(dirname "$0")"
module=github.com/lockstock/lockstock/clients/go
find ../../proto -name '*.proto' -exec \
  protoc -I ../../proto --go_out=. --go_opt=module=$module --go-grpc_out=. --go-grpc_opt=module=$module {} +
