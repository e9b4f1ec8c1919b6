#!/usr/bin/env bash
# outside.sh BUILD_DIR SOURCE_DIR CFLAGS
# An outside project builds and runs on what `cmake --install` put down, after that
# was moved to a path with a space; and pkg-config finds it too. CC: the compiler.
set -euo pipefail
build=$1 source=$2 flags=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix="$work/moved pre fix" project="$work/out side"

cmake --install "$build" --prefix "$work/first pre fix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
mv "$work/first pre fix" "$prefix"
cp -r "$source" "$project"
cmake -S "$project" -B "$project/build" "-DCMAKE_PREFIX_PATH=$prefix" "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror $flags" \
  "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror $flags"
cmake --build "$project/build"
"$project/build/visit"
"$project/build/visit_cpp"

echo "what is generated follows what it imports"
imported="$project/imports/money/v1/money.proto"
sed -i 's/cents = 1;/cents = 1;\n  string currency = 2;/' "$imported"
cmake --build "$project/build"
[ "$project/build/shop.lockstock/shop.lks.h" -nt "$imported" ]

echo "pkg-config"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name lockstock.pc)")
export PKG_CONFIG_PATH
generated="$project/build/shop.lockstock" google="$project/build/lockstock_google_types.lockstock"
eval "${CC:-cc} -std=c11 $flags '-I$generated' '-I$google' $(pkg-config --cflags lockstock lockstock-host) '$project/visit.c' \
  '$generated'/shop*.c '$generated'/money/v1/*.c '$google'/google/protobuf/timestamp*.c $(pkg-config --libs lockstock lockstock-host) -o '$work/visit'"
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH") "$work/visit"
protos=
eval "protos=$(pkg-config --variable=protodir lockstock-rpc)" # it escapes spaces
[ -e "$protos/lockstock/rpc/v1/options.proto" ]

echo "static libraries, by CMake and by pkg-config, where there are no shared ones"
lib=$(dirname "$(find "$prefix" -name liblockstock.a)")
cmake -S "$project" -B "$project/static" "-DCMAKE_PREFIX_PATH=$prefix" -DSTATIC=ON "-DCMAKE_C_FLAGS=$flags" "-DCMAKE_CXX_FLAGS=$flags"
rm "$lib"/liblockstock*.so*
cmake --build "$project/static"
"$project/static/visit"
eval "${CC:-cc} -std=c11 $flags '-I$generated' '-I$google' $(pkg-config --cflags lockstock lockstock-host) '$project/visit.c' \
  '$generated'/shop*.c '$generated'/money/v1/*.c '$google'/google/protobuf/timestamp*.c $(pkg-config --static --libs lockstock-host) -o '$work/visit'"
"$work/visit"
printf '#include <lockstock/lockstock.h>\nint main(void) { return (int)lks_channel_close(NULL); }\n' >"$work/caller.c"
eval "${CC:-cc} -std=c11 $flags $(pkg-config --cflags lockstock) '$work/caller.c' $(pkg-config --static --libs lockstock) -o '$work/caller'"
"$work/caller"
for library in "$lib"/liblockstock*.a; do
  ! nm --extern-only --defined-only "$library" | grep -E ' [A-Z] ' | grep -vE ' (lks_|lockstock__|google__protobuf__|__odr_asan)' ||
    { echo "$library has names that a program may have too"; exit 1; }
done
