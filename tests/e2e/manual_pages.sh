#!/usr/bin/env bash
# manual_pages.sh SOURCE_DIR LOCKSTOCK_MAN LOCKSTOCK LOCKSTOCKD LOCKSTOCK_BENCH
# The manual pages say every flag, setting, command, method and field that there is, and are rendered without a warning.
set -euo pipefail
source=$1 make_page=$2 lockstock=$3 lockstockd=$4 bench=$5
command -v scdoc >/dev/null || { echo "skipped: no scdoc"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  printf 'FAILED: %s\n' "$*"
  exit 1
}

services=(lock stock idempotency rate-limit id guard admin)
for template in "$source"/packaging/man/*.scd; do
  name=$(basename "$template" .scd)
  "$make_page" "$template" >"$name.scd"
done
for service in "${services[@]}"; do
  "$make_page" --service "$service" >"lockstock-$service.7.scd"
done
! "$make_page" --service none >/dev/null 2>&1 || fail "a page of a service that is none"
printf '@none@\n' >none
! "$make_page" none >/dev/null 2>&1 || fail "a template that names what is none"

# The text of a page, without formatting.
render() { # page
  MANWIDTH=100 LC_ALL=C.UTF-8 man -E ascii --warnings -l "$1" 2>"$1.warnings" | col -bx >"$1.text"
  [ ! -s "$1.warnings" ] || { cat "$1.warnings"; fail "$1: warnings"; }
}

for scd in *.scd; do
  page=${scd%.scd}
  scdoc <"$scd" >"$page" || fail "$page: scdoc"
  if command -v mandoc >/dev/null; then
    mandoc -T lint -W error "$page" || fail "$page: mandoc"
  fi
  if command -v man >/dev/null; then
    render "$page"
  else
    tr -d '\134' <"$scd" >"$page.text"
  fi
done

says() { # page text...
  for text in "${@:2}"; do
    grep -qF -- "$text" "$1.text" || fail "$1 does not say: $text"
  done
}

flags_of() { # program...
  "$@" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p'
}

mapfile -t flags < <(flags_of "$lockstock" && flags_of "$lockstock" run && flags_of "$lockstock" limit)
says lockstock.1 "${flags[@]}"
mapfile -t commands < <("$lockstock" --help | sed -n 's/^  \(lockstock [a-z]* *[a-z]*\).*/\1/p')
[ "${#commands[@]}" -ge 9 ] || fail "lockstock --help has few commands"
says lockstock.1 "${commands[@]}"
mapfile -t flags < <(flags_of "$lockstockd")
[ "${#flags[@]}" -ge 30 ] || fail "lockstockd --help has few flags"
says lockstockd.8 "${flags[@]}"
for flag in "${flags[@]}"; do
  case $flag in
    --config | --check-config | --print-config | --help | --version) ;;
    *) says lockstockd.conf.5 "${flag#--}" ;;
  esac
done
mapfile -t flags < <(flags_of "$bench")
says lockstock-bench.1 "${flags[@]}" deduct-hot

# Every method, field and value of the contract.
words_of() { # service's .proto
  sed -nE 's/^  rpc ([A-Za-z]+).*/\1/p; s/^ +(repeated )?[A-Za-z0-9_.]+ ([a-z_0-9]+) = [0-9]+;.*/\2/p; s/^  ([A-Z_0-9]+) = [0-9]+;.*/\1/p' "$1"
}
for service in "${services[@]}"; do
  mapfile -t words < <(words_of "$source/proto/lockstock/v1/${service/-/}.proto")
  [ "${#words[@]}" -ge 5 ] || fail "$service.proto has few words"
  says "lockstock-$service.7" "${words[@]}"
done
says lockstock-lock.7 "Takes all targets or none." "How long to queue when not free."
