#!/usr/bin/env bash
# envoy.sh LOCKSTOCKD SOURCE_DIR: Envoy's rate limit call by grpcio. 77: it is not here.
set -euo pipefail
program=$1 source=$2
. "$source/tests/examples/lockstockd.sh"

/usr/bin/python3 -c 'import grpc, google.protobuf' 2>/dev/null || skip "needs python3-grpcio and python3-protobuf"
mkdir "$dir/py"
(cd "$source/proto" && protoc -I . --python_out="$dir/py" lockstock/v1/*.proto lockstock/rpc/v1/*.proto)
(cd "$source/standard/protos" && protoc -I . --python_out="$dir/py" envoy/service/ratelimit/v3/rls.proto \
  envoy/extensions/common/ratelimit/v3/ratelimit.proto)
start "$program" server "embedded:$dir/data"
PYTHONPATH=$dir/py timeout 100 /usr/bin/python3 -B "$source/tests/interop/should_rate_limit.py" "$grpc"
echo "envoy: as expected"
