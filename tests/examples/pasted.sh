#!/usr/bin/env bash
# pasted.sh WHICH LOCKSTOCKD SOURCE_DIR: the block "pasted: WHICH" of docs/grpc.md, as a user pastes it, against a server
# of its own. 77: what it needs is not here.
set -euo pipefail
which=$1 program=$2 source=$3
. "$source/tests/examples/lockstockd.sh"

needs() { # package program...
  for tool in "${@:2}"; do
    [ -e "$tool" ] || command -v "$tool" >/dev/null || skip "needs $1 (packaging/apt.txt)"
  done
}
case $which in
buf) [ -x "$source/node_modules/.bin/buf" ] || skip "needs npm's packages: npm install, in the source directory" ;;
python | outside)
  needs protobuf-compiler-grpc grpc_python_plugin
  /usr/bin/python3 -c 'import grpc, google.protobuf' 2>/dev/null || skip "needs python3-grpcio and python3-protobuf"
  ;;
ruby)
  needs protobuf-compiler-grpc grpc_ruby_plugin
  ruby -e 'require "grpc"' 2>/dev/null || skip "needs ruby-grpc"
  ;;
go)
  needs golang-go go
  needs protoc-gen-go protoc-gen-go
  needs protoc-gen-go-grpc protoc-gen-go-grpc
  needs golang-google-grpc-dev /usr/share/gocode/src/google.golang.org/grpc
  export GOCACHE=$dir/gocache GOPATH=$dir/gopath GOSUMDB=off GOFLAGS=-modcacherw GOPROXY=file://$dir/proxy
  /usr/bin/python3 "$source/tests/examples/goproxy.py" "$dir/proxy"
  ;;
others | java) needs protobuf-compiler-grpc grpc_php_plugin ;;&
java)
  needs default-jdk-headless javac
  needs libprotobuf-java /usr/share/java/protobuf.jar
  needs libgrpc-java /usr/share/java/grpc-netty.jar
  needs protobuf-compiler-grpc-java-plugin grpc_java_plugin
  needs libperfmark-java /usr/share/java/perfmark-api.jar
  needs libgeronimo-annotation-1.3-spec-java /usr/share/java/geronimo-annotation-1.3-spec.jar
  ;;
esac
block=$which
[ "$which" != java ] || block=others # and its output is compiled

# The sources as they are, and what the block makes beside them; npm's packages are here already.
mkdir "$dir/sources"
cp -r "$source/proto" "$source/examples" "$dir/sources"
mkdir "$dir/sources/clients"
cp -r "$source/clients/go" "$dir/sources/clients"
[ ! -e "$source/node_modules" ] || ln -s "$source/node_modules" "$dir/sources"
awk -v "marker=<!-- pasted: $block -->" '
  $0 == marker { found = 1; next }
  found && $0 == "```sh" { inside = 1; next }
  inside && $0 == "```" { exit }
  inside' "$source/docs/grpc.md" >"$dir/block"
[ -s "$dir/block" ] || { echo "FAILED: docs/grpc.md has no block $block"; exit 1; }
start "$program" server "embedded:$dir/data"
sed -i -e "s/127\.0\.0\.1:7701/$grpc/g" -e '/^npm install /d' "$dir/block"
cd "$dir/sources"

has() { # file text: the file is there and has the text
  grep -qF -- "$2" "$1" || { echo "FAILED: no \"$2\" in $1"; exit 1; }
}
case $which in
outside)
  # As cmake --install writes it; gen/readme_pkg-config uses that one.
  printf 'protodir=%s\nName: lockstock-rpc\nDescription: -\nVersion: 0\n' "$source/proto" >"$dir/lockstock-rpc.pc"
  mkdir "$dir/outside"
  cd "$dir/outside"
  PKG_CONFIG_PATH=$dir timeout 100 bash -e "$dir/block" >"$dir/output"
  has "$dir/output" 'ids: 1'
  ;;
buf)
  timeout 100 bash -e "$dir/block" >"$dir/output"
  has "$dir/output" DEDUCT_OUTCOME_DEDUCTED
  has "$dir/output" ACQUIRE_OUTCOME_ACQUIRED
  has <(tr -d ' ' <"$dir/output") '"available":"2"'
  ;;
others)
  bash -e "$dir/block"
  has stubs/java/lockstock/v1/AcquireRequest.java 'package lockstock.v1;'
  has stubs/java/lockstock/v1/LockProto.java 'class LockProto'
  has stubs/csharp/Lockstock/V1/Lock.cs 'namespace Lockstock.V1 {'
  has stubs/php/Lockstock/V1/AcquireRequest.php 'namespace Lockstock\V1;'
  has stubs/php/Lockstock/V1/LockServiceClient.php 'class LockServiceClient'
  ;;
java)
  bash -e "$dir/block"
  find proto -name '*.proto' -exec \
    protoc -I proto --grpc-java_out=stubs/java --plugin=protoc-gen-grpc-java="$(command -v grpc_java_plugin)" {} +
  jars=$(printf '%s:' /usr/share/java/{grpc-*,protobuf,guava,netty*,perfmark*,geronimo-annotation-1.3-spec}.jar)
  find stubs/java "$source/clients/java" "$source/tests/examples/UseMutex.java" -name '*.java' \
    -exec javac -nowarn -d "$dir/classes" -cp "$jars" {} +
  expected=$dir/expected
  printf '%s\n' 'java: not acquired: ACQUIRE_OUTCOME_TIMED_OUT' 'passed on' lost 'java: the lock was lost' >"$expected"
  expect_output java -cp "$dir/classes:$jars" UseMutex "$grpc"
  ;;
*)
  # shellcheck disable=SC2034 # read by expect_output
  expected=$source/tests/examples/expected.txt
  PYTHONDONTWRITEBYTECODE=1 expect_output bash -e "$dir/block"
  ;;
esac
if [ "$which" = go ]; then # the lock that renews itself
  cd clients/go
  { go mod tidy && LOCKSTOCK_GRPC=$grpc go vet . && LOCKSTOCK_GRPC=$grpc timeout 100 go test .; } >"$dir/output" 2>&1 ||
    { cat "$dir/output"; echo "FAILED: clients/go"; exit 1; }
fi
echo "$which: as expected"
