#!/usr/bin/env bash
# ./test.sh                the fast suite under ASan+UBSan and under TSan, and buf
# ./test.sh --changed [base]   the tests that changes since base can break, within a minute (tests/changed.py)
# ./test.sh --soak         the full counts (label soak) under ASan+UBSan, the mutations, and floods on a release build
# ./test.sh --languages    the contract's clients in other languages, with Go and Java, which the others skip
# ./test.sh --torture [minutes] [--store embedded|redis|sentinel|cluster|zookeeper] [--seed N] ...   many clients and faults, and
#                          whether what was answered can be true (docs/torture.md); 10 minutes, embedded
# ./test.sh --fuzz [s] [fuzz_x...]   each fuzz target (tests/fuzz), or those, for s seconds (60)
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
. "$root/packaging/install.sh"
cd "$root"

export ASAN_OPTIONS="detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:abort_on_error=0:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}"
# Findings in libraries, each with its proof; the files exist only while there are any.
[ ! -f tests/lsan.supp ] || export LSAN_OPTIONS="suppressions='$root/tests/lsan.supp':print_suppressions=0:${LSAN_OPTIONS:-}"
[ ! -f tests/tsan.supp ] || TSAN_OPTIONS="suppressions='$root/tests/tsan.supp':$TSAN_OPTIONS"

failed=()
closing=()
quiet=()
[ -t 1 ] || quiet=(-- --quiet)

build_preset() { # preset [cmake --build's arguments]
  mkdir -p "build/$1"
  cmake --preset "$1" >"build/$1/configure.log" 2>&1 || {
    tail -n 20 "build/$1/configure.log" >&2
    die "cmake failed for preset $1"
  }
  cmake --build --preset "$@" "${quiet[@]}" || die "the build of preset $1 failed"
}

# gcc 12's TSan cannot map its shadow where addresses are more random than this.
steady_addresses() {
  if [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28)" -gt 28 ] && setarch -R true 2>/dev/null; then
    setarch -R "$@"
  else
    "$@"
  fi
}

# lockstockd has one thread, and so have the programs of these tests: ThreadSanitizer has nothing to find there.
one_thread='^(services|gen|fuzz|packaging|docs|mutations|clients|console)/|^fault/(floods|test_websocket_hostile)$|^unit/test_(store_|zookeeper)|^e2e/(cli_completion|manual_pages)$'

# A machine that is busy with other work can make a test miss its deadline. A test that failed without a
# sanitizer's report therefore runs again, alone; its first failure stays in the log and in the closing lines.
passes_alone() { # preset log
  ! grep -qE 'ERROR: (Address|Leak|Thread)Sanitizer|WARNING: ThreadSanitizer|: runtime error: ' "$2" || return 1
  echo "running again, alone, what failed"
  steady_addresses ctest --test-dir "build/$1" --rerun-failed --output-on-failure 2>&1 | tee "$2.again"
}

run_tests() { # preset label [ctest's flags]
  local log="build/$1/$2.log"
  build_preset "$1"
  # Most tests wait most of the time: one more than there are processors.
  if ! steady_addresses ctest --test-dir "build/$1" -L "$2" "${@:3}" -j "$(($(nproc) + 1))" --output-on-failure --no-tests=error 2>&1 |
    tee "$log"; then
    if passes_alone "$1" "$log"; then
      closing+=("$1 $2: passed only when run again alone:$(sed -nE '/\(Skipped\)/!s/^\t *[0-9]+ - ([^ ]+) .*/ \1/p' "$log" | tr -d '\n')")
    else
      failed+=("$1 $2")
    fi
  fi
  closing+=("$1 $2: $(grep -E 'tests passed' "$log" | tail -n 1), $(grep -E 'Total Test time' "$log" | tail -n 1)")
}

# buf, and what the tests in Node need; `reason` says why not.
npm_ready() {
  reason=''
  [ -d node_modules/@grpc/grpc-js ] && [ -d node_modules/@connectrpc/connect-node ] &&
     node_modules/.bin/buf --version >/dev/null 2>&1 &&
    return
  command -v npm >/dev/null || install_packages npm || { reason="there is no npm"; return 1; }
  mkdir -p build
  # Versions and checksums are the lock file's. Not `npm ci`, which wants the packages
  # of all platforms in it, where this one's are enough.
  npm install --no-save --ignore-scripts --no-audit --no-fund >build/npm.log 2>&1 ||
    { reason="npm failed: $(grep -m 1 error build/npm.log)"; return 1; }
  node_modules/.bin/buf --version >/dev/null 2>&1 || { reason="buf does not run here"; return 1; }
}

check_contract() {
  local reason first
  if ! npm_ready; then
    closing+=("buf: skipped, $reason")
    return
  fi
  if node_modules/.bin/buf lint; then
    closing+=("buf lint: passed")
  else
    failed+=("buf lint")
  fi
  if [ "$(git rev-parse --is-shallow-repository 2>/dev/null)" != false ]; then
    closing+=("buf breaking: skipped, the history is not here")
    return
  fi
  first=$(git rev-list HEAD -- proto buf.yaml | tail -n 1)
  if node_modules/.bin/buf breaking --against ".git#ref=$first"; then
    closing+=("buf breaking against $first: passed")
  else
    failed+=("buf breaking")
  fi
}

run_fuzz() { # seconds [targets]
  local name names=("${@:2}") corpora
  if [ ${#names[@]} -eq 0 ]; then
    names=(tests/fuzz/fuzz_*.c)
    names=("${names[@]##*/}")
    names=("${names[@]%.c}")
  fi
  build_preset fuzz --target "${names[@]}"
  for name in "${names[@]}"; do
    mkdir -p "build/fuzz/corpus/$name"
    corpora=("build/fuzz/corpus/$name")
    [ ! -d "tests/fuzz/corpus/$name" ] || corpora+=("tests/fuzz/corpus/$name")
    if "build/fuzz/tests/fuzz/$name" -max_total_time="$1" -max_len=4096 -timeout=10 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/$name-" "${corpora[@]}"; then
      closing+=("$name: $1 s, nothing found")
    else
      failed+=("$name")
    fi
  done
}

lint() { # name command...
  if "${@:2}"; then
    closing+=("$1: passed")
  else
    failed+=("$1")
  fi
}

# clang-tidy runs with the build of the preset, which is an optimising compiler's too: it sees other warnings.
check_style() {
  local scripts
  mapfile -t scripts < <(git ls-files '*.sh' .ci/run 'packaging/debian/server/p*')
  lint clang-format sh -c "git ls-files -z '*.c' '*.h' | xargs -0 clang-format --dry-run -Werror"
  lint shellcheck shellcheck -x "${scripts[@]}"
  build_preset lint
  closing+=("clang-tidy: passed")
  lint luacheck luacheck --no-color -q build/lint/server/functions/lockstock-functions.lua tests/services tests/e2e tests/quorum
}

case "${1:-}" in
"")
  install_packages run test
  npm_ready || true # else the tests that need it say so
  install_packages browser || true
  install_packages zookeeper || true
  check_style
  run_tests asan fast
  run_tests tsan fast -E "$one_thread"
  check_contract
  ;;
--changed)
  [ -f build/asan/build.ninja ] || build_preset asan
  steady_addresses /usr/bin/python3 tests/changed.py "${@:2}"
  exit
  ;;
--soak)
  install_packages run test packages
  install_packages zookeeper || true
  run_tests asan soak
  if [ "$(id -u)" -eq 0 ]; then
    lint "packages of Debian" packaging/test-debs.sh
    lint "OCI image" packaging/oci/test.sh
  else
    closing+=("packages of Debian, OCI image: skipped, not root")
  fi
  ;;
--languages)
  install_packages run test languages
  npm_ready || true
  run_tests asan languages
  ;;
--torture)
  install_packages run test
  build_preset asan --target lockstockd torture_caller shifted-clock synced-bytes
  minutes=10
  if [[ "${2:-}" =~ ^[0-9.]+$ ]]; then
    minutes=$2
    shift
  fi
  lint torture /usr/bin/python3 tests/torture/torture.py --build build/asan \
    --seconds "$(awk -v minutes="$minutes" 'BEGIN { print minutes * 60 }')" "${@:2}"
  ;;
--fuzz)
  install_packages run test fuzz
  run_fuzz "${2:-60}" "${@:3}"
  ;;
*) die "usage: ./test.sh [--changed [base] | --soak | --languages | --torture [minutes [flags]] | --fuzz [seconds [target...]]]" ;;
esac

echo
printf '%s\n' "${closing[@]}"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
