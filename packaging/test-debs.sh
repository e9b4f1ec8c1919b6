#!/usr/bin/env bash
# packaging/test-debs.sh [by-hand|systemd]...
#
# Builds the packages of this tree, and of the last release from the commit that packaging/released.txt names. In a fresh
# Debian 12 for each way it installs the release, sells, upgrades to this tree, goes back, upgrades again, restarts, removes
# and purges. It checks stock, holds and locks after each step, and each command line with the other version's server.
# `by-hand`: a chroot without an init, where packages may start nothing; the test starts the server as its unit would.
# `systemd`: a Debian that is booted, in namespaces.
#
# Needs root and the packages under [packages] in packaging/apt.txt. The first run downloads the base system and the
# packages' dependencies, and keeps both in build/debian-base.tar; later runs need no network.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
. "$root/packaging/install.sh"
need_root "it makes its own system"
cd "$root"
ways=("$@")
[ ${#ways[@]} -gt 0 ] || ways=(by-hand systemd)
work=$(mktemp -d)
init=
holder=

end_system() {
  [ -z "$holder" ] || kill -KILL "$holder" 2>/dev/null || true
  [ -z "$holder" ] || wait "$holder" 2>/dev/null || true
  holder=
  init=
}
clean_up() {
  local status=$?
  end_system
  rm -rf --one-file-system "$work"
  exit $status
}
trap clean_up EXIT

say() {
  printf '%s: %s\n' "${way:-packages}" "$*"
}

# ---- packages and the base ---------------------------------------------------------------

build_packages() { # 1 or 2, directory of the sources, commit
  logged "$work/build.log" "the packages of $2 are not built" \
    build_debs "$2" "$work/$1" "-DCPACK_DEBIAN_PACKAGE_RELEASE=$1" "-DLOCKSTOCK_COMMIT=$3"
}

# Prints the directory of the sources of a commit, which is kept for the next run.
source_of() { # commit
  local source="build/release-$1"
  if [ ! -f "$source/complete" ]; then
    rm -rf "$source"
    mkdir -p "$source"
    git archive "$1" | tar -x -C "$source"
    touch "$source/complete"
  fi
  printf '%s\n' "$root/$source"
}

# Suppressed warnings: the first changelog closes no bug of Debian's; CPack calls ldconfig in scripts as well as by the
# trigger.
check_lint() {
  if ! command -v lintian >/dev/null; then
    say "lintian: skipped, it is not installed"
    return
  fi
  lintian --allow-root --fail-on error,warning \
    --suppress-tags initial-upload-closes-no-bugs,maintscript-calls-ldconfig "$work"/2/*.deb ||
    die "lintian finds something"
  say "lintian: nothing found"
}

# Each file of `cmake --install` is in one package, except lockstock-bench-peer and static libraries.
check_complete() {
  local deb
  DESTDIR="$work/all" cmake --install build/debian >"$work/install.log"
  (cd "$work/all" && find . ! -type d ! -name lockstock-bench-peer ! -name '*.a' | sort) >"$work/installed"
  for deb in "$work"/2/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -t | grep -v '/$' | sed '/\/man\//s/\.gz$//'
  done | sort >"$work/packed"
  diff "$work/installed" "$work/packed" || die "the packages and the installed files differ"
  say "all that is installed is in one package"
}

get_base() {
  local base=build/debian-base.tar system="$work/base" log="$work/base.log"
  if [ ! -f "$base" ]; then
    say "downloading a base system"
    logged "$log" "debootstrap failed" debootstrap --variant=minbase --include=systemd-sysv,dbus bookworm "$system"
    mkdir "$system/debs"
    cp "$work"/2/*.deb "$system/debs"
    cp /etc/resolv.conf "$system/etc/resolv.conf"
    # One call for all packages; the compiler is for the library's test.
    logged "$log" "the packages' dependencies cannot be downloaded" chroot "$system" sh -c \
      'apt-get -qq update && apt-get -qq install -y --no-install-recommends --download-only gcc libc6-dev pkgconf /debs/*.deb'
    rm -r "$system/debs"
    tar -C "$system" -cf "$base.new" . && mv "$base.new" "$base"
    rm -rf --one-file-system "$system"
  fi
}

# ---- the system --------------------------------------------------------------------------

inside() { # command...
  nsenter --target "$init" --all --root --wd -- env -i PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
    HOME=/root "$@"
}

begin_system() {
  local deb system="$work/system" first='while :; do sleep 1000; done'
  rm -rf --one-file-system "$system"
  mkdir "$system"
  tar -C "$system" -xf build/debian-base.tar
  mkdir -p "$system/debs" "$system/old"
  cp -r "$work/1" "$work/2" "$system/debs"
  for deb in "$work"/[12]/*.deb; do
    dpkg-deb -x "$deb" "$(dirname "$system/debs/${deb#"$work/"}")/files"
  done
  cp examples/quickstart.c "$system/root"
  if [ "$way" = systemd ]; then
    first='exec /lib/systemd/systemd --system --log-target=null'
    # The package of Redis would start a server that this test does not use.
    mkdir -p "$system/etc/systemd/system"
    ln -s /dev/null "$system/etc/systemd/system/redis-server.service"
  fi
  # Process 1 of new namespaces: it does not see the machine's ports, processes and mounts, and everything that it starts
  # ends with it.
  cat >"$work/begin.sh" <<'EOF'
system=$1 way=$2 first=$3
set -e
mount --make-rprivate /
mount --bind "$system" "$system"
mount -t proc proc "$system/proc"
mount -t tmpfs tmpfs "$system/run"
mount -t tmpfs tmpfs "$system/tmp"
mount --rbind /dev "$system/dev"
if [ "$way" = systemd ]; then
  mount -t sysfs sysfs "$system/sys"
  mount -t cgroup2 cgroup2 "$system/sys/fs/cgroup"
fi
ip link set lo up
cd "$system"
pivot_root . old
umount -l /old
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /bin/sh -c "$first"
EOF
  unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child sh "$work/begin.sh" "$system" "$way" "$first" \
    </dev/null >"$work/init.log" 2>&1 &
  holder=$!
  until_true "the system's first process" first_process
  # Until it has its own root, its root is this machine's: nothing else may run in it.
  until_true "the system's own root" inside test -d /debs/1 -a ! -e /old/etc
  [ "$way" != systemd ] || until_true "systemd" inside systemctl is-system-running --wait --quiet
}

first_process() {
  init=$(pgrep -P "$holder" | head -n 1) && [ -n "$init" ]
}

until_true() { # what command...
  local i
  for i in $(seq 600); do
    ! "${@:2}" >/dev/null 2>&1 || return 0
    kill -0 "$holder" 2>/dev/null || { cat "$work/init.log" >&2; die "$way: the system has ended"; }
    sleep 0.1
  done
  die "$way: no $1 after $i checks"
}

# ---- the server --------------------------------------------------------------------------

is_running() {
  inside sh -c 'grep -qx lockstockd /proc/[0-9]*/comm'
}

is_ready() {
  inside lockstock status
}

# Starts the server, without systemd by the command, user and directory of its unit.
start() {
  if [ "$way" = systemd ]; then
    inside systemctl start lockstockd
  else
    # shellcheck disable=SC2016
    inside sh -c 'unit=/usr/lib/systemd/system/lockstockd.service
      of() { sed -n "s/^$1=//p" $unit; }
      start-stop-daemon --start --background --make-pidfile --pidfile /root/pid --chuid "$(of User):$(of Group)" \
        --chdir "$(of WorkingDirectory)" --umask "$(of UMask)" --output /root/log --startas /bin/sh -- -c "exec $(of ExecStart)"'
    until_true "server that is ready" is_ready
  fi
}

stop() {
  if [ "$way" = systemd ]; then
    inside systemctl stop lockstockd
  else
    inside start-stop-daemon --stop --quiet --pidfile /root/pid --retry TERM/60 --remove-pidfile
  fi
  ! is_running || die "$way: it does not stop"
}

stock=100000
sold=0
sold_meanwhile=0
sell() { # n
  local i
  for ((i = 0; i < $1; i++)); do
    sold=$((sold + 1))
    inside lockstock stock deduct "order-$sold" --line tea=2 >/dev/null || die "$way: order $sold failed"
  done
}

# Buys in the background, and repeats each order until it has an answer.
sell_meanwhile() {
  # shellcheck disable=SC2016
  inside sh -c 'n=0
    until [ -e /root/enough ]; do
      n=$((n + 1))
      until lockstock stock deduct "meanwhile-$n" --line tea=2 >/dev/null 2>&1; do :; done
      echo $n >/root/meanwhile
    done' &
  seller=$!
  until_true "order meanwhile" inside test -s /root/meanwhile
}

end_meanwhile() {
  local before
  before=$(inside cat /root/meanwhile)
  until_true "order after the upgrade" inside sh -c "[ \$(cat /root/meanwhile) -gt $((before + 1)) ]"
  inside touch /root/enough
  wait "$seller"
  sold_meanwhile=$(inside cat /root/meanwhile)
}

# "available sold"
item() {
  inside lockstock stock get tea --json | sed -n 's/.*"\(available\|sold\)": "\([0-9]*\)".*/\2/p' | xargs
}

# Checks the item, also after an order is repeated.
check_stock() { # when
  local wanted="$((stock - held - 2 * (sold + sold_meanwhile))) $((2 * (sold + sold_meanwhile)))"
  [ "$(item)" = "$wanted" ] || die "$way: $(item) left and sold, not $wanted, $1"
  inside lockstock stock deduct "order-$sold" --line tea=2 >/dev/null || die "$way: order $sold is not known, $1"
  [ "$(item)" = "$wanted" ] || die "$way: order $sold has sold twice, $1"
  say "left and sold, of $stock: $wanted, $1"
}

held=0
hold() {
  inside lockstock stock reserve held --line tea=3 --hold 1h >/dev/null
  held=3
  inside lockstock lock acquire door --token a-token-of-16-bytes --lease 1h --owner porter >/dev/null
  fence=$(lock_of door)
}

# "owner fence"
lock_of() { # name
  inside lockstock lock inspect "$1" --json | sed -n 's/.*"\(owner\|fence\)": "\([^"]*\)".*/\2/p' | xargs
}

check_holds() { # when
  [ "$(lock_of door)" = "$fence" ] || die "$way: the lock is held by $(lock_of door), not $fence, $1"
  inside lockstock lock renew names=door,token=a-token-of-16-bytes,lease=1h >/dev/null || die "$way: the lock is not renewed, $1"
  inside lockstock stock extend-hold held --group tea --hold 1h >/dev/null || die "$way: the hold is not extended, $1"
  say "the hold and the lock are as they were, $1"
}

# Checks the command line of a version with the installed server.
check_tools() { # 1 or 2
  # shellcheck disable=SC2016
  local tools=(inside sh -c 'cd "/debs/$0/files/usr" && LD_LIBRARY_PATH=$(printf %s: "$PWD"/lib/*/) exec timeout 60 bin/lockstock "$@"' "$1")
  local command
  for command in status "stock ls" "stock get tea" "lock ls" "lock inspect door" "run --lock tools -- true"; do
    # shellcheck disable=SC2086
    "${tools[@]}" $command >/dev/null || die "$way: the command line of package $1 fails: $command"
  done
  [ "$("${tools[@]}" stock ledger --group tea | wc -l)" = "$(inside lockstock stock ledger --group tea | wc -l)" ] ||
    die "$way: the command line of package $1 shows another ledger"
  say "the command line of package $1 works with this server"
}

# systemd starts the server again after an error that may pass, and not after one that cannot.
check_restarts() {
  local manifest=/var/lib/lockstock/store/appendonlydir/appendonly.aof.manifest
  stop
  inside start-stop-daemon --start --background --make-pidfile --pidfile /root/other.pid --startas /usr/bin/lockstockd -- \
    --listen tcp://127.0.0.1:7700 --store embedded:/root/other
  until_true "server that takes the port" is_ready
  ! inside systemctl start lockstockd 2>/dev/null || die "it is started on a port in use"
  until_true "sixth start" inside sh -c "[ \$(systemctl show -P NRestarts lockstockd) -gt 5 ]"
  inside start-stop-daemon --stop --quiet --pidfile /root/other.pid --retry TERM/60 --remove-pidfile
  until_true "server with the port" inside systemctl is-active --quiet lockstockd
  inside rm -r /root/other
  check_stock "after a port in use"

  stop
  inside mv "$manifest" /root/manifest
  ! inside systemctl start lockstockd 2>/dev/null || die "it is started without its data"
  [ "$(inside systemctl show -P ExecMainStatus lockstockd)" = 78 ] || die "it does not end with 78 without its data"
  [ "$(inside systemctl show -P SubState lockstockd)" = failed ] || die "it is started again without its data"
  inside mv /root/manifest "$manifest"
  start
  check_stock "after its data was gone"
}

# ---- the test ----------------------------------------------------------------------------

install() { # release
  # Keeps a changed configuration, as an unattended upgrade does.
  logged "$work/apt.log" "$way: release $1 is not installed" inside sh -c \
    "apt-get -qq install -y --no-install-recommends --allow-downgrades -o Dpkg::Options::=--force-confold /debs/$1/*.deb"
}

# The server runs while its package is replaced.
change_to() { # 1 or 2
  install "$1"
  [ "$way" != by-hand ] || { stop && start; }
  until_true "server of package $1" is_ready
  # While the server runs, as docs/operations.md says.
  inside runuser -u lockstock -- lockstockd --config /etc/lockstock/lockstockd.conf --check-config >/dev/null ||
    die "$way: the settings are refused while the server runs"
}

compile_and_call() {
  logged "$work/apt.log" "$way: no compiler" inside apt-get -qq install -y --no-install-recommends gcc libc6-dev pkgconf
  # shellcheck disable=SC2016
  [ "$(inside sh -c 'cd && cc quickstart.c $(pkg-config --cflags --libs lockstock) -o quickstart && ./quickstart | sed -n 2p')" = DEDUCTED ] ||
    die "$way: the quickstart does not work with liblockstock-dev"
  say "the quickstart, compiled with liblockstock-dev, has sold"
}

try_way() {
  local pid
  sold=0
  held=0
  sold_meanwhile=0
  begin_system
  if [ "$way" = by-hand ]; then
    # policy-rc.d forbids to start services, although systemctl is there and could.
    inside sh -c 'printf "#!/bin/sh\nexit 101\n" >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d'
    inside mkdir -p /run/systemd/system
    inside dpkg-divert --quiet --rename --add /usr/bin/systemctl
    # shellcheck disable=SC2016
    inside sh -c 'printf "#!/bin/sh\necho \"\$@\" >>/root/systemctl\n" >/usr/bin/systemctl && chmod 755 /usr/bin/systemctl'
  fi
  install 1
  if [ "$way" = by-hand ]; then
    ! is_running || die "it was started against policy-rc.d"
    inside grep -q daemon-reload /root/systemctl || die "systemctl was not asked"
    ! inside grep -E '(^| )(start|restart) .*lockstockd' /root/systemctl || die "the package calls systemctl to start it"
    say "installed; nothing was started"
    start
  else
    [ "$(inside systemctl is-active lockstockd)" = active ] || die "it is not started"
    [ "$(inside systemctl show -P StatusText lockstockd)" = ready ] || die "systemd does not know that it is ready"
    [ "$(inside systemctl is-enabled lockstockd)" = enabled ] || die "it is not enabled"
    inside sh -c 'systemctl show -P Documentation lockstockd | tr " " "\n" | sed -n "s/^man:\([a-z.]*\)(\(.\))$/\/usr\/share\/man\/man\2\/\1.\2.gz/p; s/^file://p" | grep . | xargs ls' >/dev/null ||
      die "a page that the unit names is not there"
    say "installed; systemd has started it, and knows that it is ready"
  fi
  inside lockstock stock put tea $stock >/dev/null
  sell 20
  hold
  check_stock "new"
  check_tools 2

  inside sh -c 'echo "# of the operator" >>/etc/lockstock/lockstockd.conf'
  sell_meanwhile
  change_to 2
  inside grep -q "of the operator" /etc/lockstock/lockstockd.conf || die "$way: an upgrade changes the operator's file"
  end_meanwhile
  check_stock "upgraded"
  check_holds "upgraded"
  check_tools 1
  compile_and_call
  change_to 1
  sell 5
  check_stock "back at the release"
  check_holds "back at the release"
  change_to 2
  check_stock "upgraded again"
  sell 10
  stop
  start
  check_stock "restarted"
  # shellcheck disable=SC2016
  pid=$(inside sh -c 'for d in /proc/[0-9]*; do [ "$(cat $d/comm 2>/dev/null)" != lockstockd ] || echo ${d#/proc/}; done' | head -n 1)
  inside sh -c "kill -KILL $pid"
  if [ "$way" = systemd ]; then
    until_true "server that is started again" is_ready
    inside systemctl reload lockstockd || die "no reload"
    [ "$(inside systemctl show -P StatusText lockstockd)" = ready ] || die "it is not ready after a reload"
    # The watchdog ends a stopped server and starts it again.
    inside sh -c 'mkdir -p /run/systemd/system/lockstockd.service.d && printf "[Service]\nWatchdogSec=2\n" >/run/systemd/system/lockstockd.service.d/w.conf'
    inside systemctl daemon-reload
    inside systemctl restart lockstockd
    pid=$(inside systemctl show -P MainPID lockstockd)
    inside sh -c "kill -STOP $pid"
    until_true "watchdog" inside sh -c "[ \$(systemctl show -P NRestarts lockstockd) -gt 0 ]"
    until_true "server after the watchdog" is_ready
  else
    inside rm -f /root/pid
    start
  fi
  check_stock "killed"
  [ "$way" != systemd ] || check_restarts
  sell 5

  if [ "$way" = by-hand ]; then stop; fi
  inside dpkg --remove lockstock-server >/dev/null
  ! is_running || die "$way: it runs after it was removed"
  inside test -d /var/lib/lockstock/store || die "$way: removing the package deletes the state"
  install 2
  if [ "$way" = by-hand ]; then start; fi
  until_true "server that was installed again" is_ready
  check_stock "removed and installed again"
  if [ "$way" = by-hand ]; then stop; fi

  inside dpkg --purge lockstock-server >/dev/null
  ! is_running || die "$way: it runs after it was purged"
  left=$(inside sh -c 'ls -d /var/lib/lockstock /run/lockstock /etc/lockstock 2>/dev/null; find / -xdev -user lockstock; find /etc/systemd /usr/lib/systemd -name "*lockstock*"; true')
  [ -z "$left" ] || die "$way: purge leaves $left"
  say "purged: nothing is left"
  end_system
}

read -r released commit <packaging/released.txt
git cat-file -e "$commit^{commit}" 2>/dev/null ||
  die "packaging/released.txt: this clone does not have commit $commit of release $released (git fetch --unshallow)"
say "package 1 is release $released, package 2 is this tree"
build_packages 1 "$(source_of "$commit")" "${commit:0:12}"
build_packages 2 "$root" ""
check_lint
check_complete
get_base
for way in "${ways[@]}"; do
  try_way
done
