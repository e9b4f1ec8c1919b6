#!/usr/bin/env bash
# run_and_install.sh SOURCE_DIR
# After ./run.sh alone, `cmake --install` installs, and the installed programs run.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/lockstock"
tar -C "$source" --exclude=./build --exclude=./node_modules --exclude=./.git -c . | tar -C "$work/lockstock" -x
cd "$work/lockstock"
./run.sh >"$work/log" 2>&1 || { tail -n 50 "$work/log"; exit 1; }
DESTDIR="$work/dest dir" cmake --install build/release >"$work/log" || { cat "$work/log"; exit 1; }
bin="$work/dest dir/usr/local/bin"
rm -rf build # nothing of it is needed any more
"$bin/lockstockd" --version
"$bin/lockstock-bench" --help >"$work/log"
[ -x "$bin/protoc-gen-lockstock" ]
for shell in bash-completion/completions/lockstock zsh/site-functions/_lockstock fish/vendor_completions.d/lockstock.fish \
  man/man1/lockstock.1 man/man5/lockstockd.conf.5 man/man7/lockstock-rate-limit.7 man/man8/lockstockd.8; do
  [ -s "$bin/../share/$shell" ]
done
