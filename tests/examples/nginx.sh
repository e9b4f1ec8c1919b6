#!/usr/bin/env bash
# nginx.sh LOCKSTOCKD SOURCE_DIR: examples/nginx, with a server killed while orders come. 77:
# what it needs is not here.
set -euo pipefail
program=$1 source=$2
. "$source/tests/examples/lockstockd.sh"
expected=$source/tests/examples/expected.txt
orders=1500

nginx=$(command -v nginx || command -v /usr/sbin/nginx) || skip "needs nginx-light"
/usr/bin/python3 -c 'import grpc, google.protobuf' 2>/dev/null || skip "needs python3-grpcio and python3-protobuf"
mkdir "$dir/py" "$dir/redis" "$dir/front"
plugin=$(command -v grpc_python_plugin) || skip "needs protobuf-compiler-grpc"
(cd "$source/proto" && protoc -I . --python_out="$dir/py" --grpc_python_out="$dir/py" \
  "--plugin=protoc-gen-grpc_python=$plugin" lockstock/v1/*.proto lockstock/rpc/v1/*.proto)
export PYTHONPATH=$dir/py

redis-server --port 0 --unixsocket "$dir/redis.sock" --dir "$dir/redis" --appendonly yes >"$dir/redis.log" &
pids+=("$!")
until [ -S "$dir/redis.sock" ]; do
  kill -0 "${pids[0]}" || { cat "$dir/redis.log"; exit 1; }
  pause
done
start "$program" first "unix://$dir/redis.sock"
first=$grpc first_pid=$pid
start "$program" second "unix://$dir/redis.sock"
second=$grpc

# nginx cannot take any port that is free: another is tried when this one is not.
for _ in 1 2 3 4 5 6 7 8 9 10; do
  front=127.0.0.1:$((20000 + RANDOM % 12000))
  sed -e "s/LISTEN/$front/" -e "s/FIRST/$first/" -e "s/SECOND/$second/" \
    "$source/examples/nginx/nginx.conf.template" >"$dir/front/nginx.conf"
  "$nginx" -p "$dir/front" -c "$dir/front/nginx.conf" -e error.log 2>"$dir/front/refused" &
  nginx_pid=$!
  until [ -s "$dir/front/nginx.pid" ] || ! kill -0 "$nginx_pid" 2>/dev/null; do pause; done
  kill -0 "$nginx_pid" 2>/dev/null && break
done
pids+=("$nginx_pid")

expect_output /usr/bin/python3 -B "$source/examples/python/grpc_client.py" "$front"

/usr/bin/python3 -B "$source/examples/nginx/orders.py" "$front" "$orders" >"$dir/orders" 2>"$dir/errors" &
buyer=$!
pids+=("$buyer")
until [ "$(wc -l <"$dir/orders")" -ge 100 ]; do
  kill -0 "$buyer" 2>/dev/null || { cat "$dir/errors"; exit 1; }
  pause
done
kill -9 "$first_pid"
wait "$buyer" || { cat "$dir/errors" "$dir/front/error.log"; exit 1; }
[ "$(wc -l <"$dir/orders")" -eq "$orders" ]
if [ "$(tail -n 1 "$dir/orders")" != "order-$((orders - 1)): 1 left" ]; then
  echo "FAILED: not each order was sold once: $(tail -n 1 "$dir/orders")"
  exit 1
fi
echo "nginx: $orders orders over two servers, of which one was killed: each sold once"
