# shellcheck shell=bash
# Sourced: servers of a test's own. `dir` is a new directory, removed with the servers at
# the end.
dir=$(mktemp -d)
pids=()
# Their exit codes count, above all for sanitizers' reports, but not of a killed process.
end_all() { # [STATUS]: of the script
  local status=${1:-$?} ended
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do
    ended=0
    wait "$pid" 2>/dev/null || ended=$?
    case $ended in
    0 | 137 | 143) ;;
    *)
      cat "$dir"/*.log
      echo "FAILED: a server ended with $ended"
      [ "$status" -ne 0 ] || status=1
      ;;
    esac
  done
  rm -rf "$dir"
  exit "$status"
}
trap end_all EXIT

# The pause between two polls.
pause() { read -rt 0.05 <> <(:) || true; }

skip() {
  echo "skipped: $*"
  exit 77
}

# start PROGRAM NAME STORE: sets `pid`, `grpc` and `tcp` (host:port)
start() {
  "$1" --listen grpc://127.0.0.1:0 --listen tcp://127.0.0.1:0 --store "$3" >"$dir/$2.log" 2>&1 &
  pid=$!
  pids+=("$pid")
  until grep -q event=ready "$dir/$2.log"; do
    kill -0 "$pid" || { cat "$dir/$2.log"; exit 1; }
    pause
  done
  # shellcheck disable=SC2034 # for the scripts that read this
  {
    grpc=$(sed -n 's#.*event=listening url=grpc://##p' "$dir/$2.log")
    tcp=$(sed -n 's#.*event=listening url=tcp://##p' "$dir/$2.log")
  }
}

# Fails unless a command's output is the expected.
expect_output() {
  # shellcheck disable=SC2154 # expected: of the script that reads this
  if ! timeout 100 "$@" >"$dir/output" 2>"$dir/errors" || ! diff "$expected" "$dir/output"; then
    cat "$dir/errors"
    echo "FAILED: $*"
    exit 1
  fi
}
