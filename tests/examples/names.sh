#!/usr/bin/env bash
# names.sh SOURCE_DIR: what the contract is called in other languages does not change. (buf breaking is not asked:
# the first commit had no such names.)
set -euo pipefail
cd "$1/proto"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

options_of() { # file
  protoc -I . --descriptor_set_out="$work/set" "$1"
  protoc -I /usr/include --decode=google.protobuf.FileDescriptorSet google/protobuf/descriptor.proto <"$work/set" |
    grep -E '^    (csharp|go|java|php|ruby)_[a-z_]*: ' | sort
}

names() { # directory go java c# php ruby file=java_outer_classname...
  for file in "${@:7}"; do
    diff - <(options_of "$1/${file%=*}.proto") <<END || { echo "FAILED: $1/${file%=*}.proto"; exit 1; }
    csharp_namespace: "$4"
    go_package: "$2"
    java_multiple_files: true
    java_outer_classname: "${file#*=}"
    java_package: "$3"
    php_namespace: "$5"
    ruby_package: "$6"
END
  done
}

# As they stand in text: a backslash is two.
go=github.com/lockstock/lockstock/clients/go
names lockstock/rpc/v1 "$go/lockstock/rpc/v1;rpcv1" lockstock.rpc.v1 Lockstock.Rpc.V1 'Lockstock\\Rpc\\V1' Lockstock::Rpc::V1 \
  envelope=EnvelopeProto options=OptionsProto
names lockstock/v1 "$go/lockstock/v1;lockstockv1" lockstock.v1 Lockstock.V1 'Lockstock\\V1' Lockstock::V1 \
  admin=AdminProto id=IdProto idempotency=IdempotencyProto lock=LockProto ratelimit=RateLimitProto stock=StockProto

# Packages that no build of ours makes have the version, too.
version=$(sed -n 's/^#define LOCKSTOCK_VERSION "\(.*\)"$/\1/p' "$1/rpc/include/lockstock/version.h")
for file in clients/java/pom.xml clients/csharp/Lockstock.csproj; do
  grep -qiF "<version>$version</version>" "$1/$file" || { echo "FAILED: $file does not have the version $version"; exit 1; }
done
