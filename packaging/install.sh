# shellcheck shell=bash
# Sourced by run.sh, test.sh and scripts of packaging/. install_packages needs `root`, the directory of the sources. If all
# is installed, it does nothing, and needs neither network nor rights. It does not start services of the packages: lockstock
# runs redis-server itself.

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

need_root() {
  [ "$(id -u)" -eq 0 ] || die "needs root: $1"
}

logged() { # log, what failed, command...
  "${@:3}" >"$1" 2>&1 && return
  tail -n 20 "$1" >&2
  die "$2"
}

build_debs() ( # sources, directory for the packages, flags of cmake...
  cd "$1" && cmake --preset debian "${@:3}" && cmake --build --preset debian && cd build/debian && cpack -B "$2"
)

packages_of() { # part...
  # shellcheck disable=SC2154
  awk -v wanted=" $* " '
    /^\[/ { part = substr($0, 2, length($0) - 2); next }
    /^[a-z0-9]/ && index(wanted, " " part " ")' "$root/packaging/apt.txt"
}

is_installed() { # package
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

is_debian_12() {
  [ "$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}")" = "debian 12" ]
}

# Tells package scripts not to start services (invoke-rc.d(8)). Keeps an existing policy.
deny_services() {
  $as_root sh -c 'set -C; printf "#!/bin/sh\nexit 101\n" >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d' \
    2>/dev/null
}

apt_get() {
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" </dev/null
}

install_packages() ( # part...
  missing=()
  for package in $(packages_of "$@"); do
    is_installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || exit 0

  is_debian_12 || die "needs Debian 12 to install: ${missing[*]}"
  as_root=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "run as root, or install sudo, to install: ${missing[*]}"
    as_root=sudo
    [ -t 0 ] || as_root="sudo -n"
    $as_root true || die "sudo was refused; needed to install: ${missing[*]}"
  fi

  echo "installing: ${missing[*]}"
  log=$(mktemp)
  denied=false
  trap '$denied && $as_root rm -f /usr/sbin/policy-rc.d; rm -f "$log"' EXIT
  trap 'exit 130' INT TERM
  deny_services && denied=true
  apt_get update >"$log" 2>&1 || true # old lists may be good enough
  if ! apt_get install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    why=
    ! grep -qE 'Failed to fetch|Temporary failure' "$log" || why="no network? "
    die "apt-get cannot install ${missing[*]}: $why$(grep -E '^(E|W|Err)' "$log" | tail -n 1)"
  fi
)
