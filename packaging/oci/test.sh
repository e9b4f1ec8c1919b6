#!/usr/bin/env bash
# packaging/oci/test.sh
#
# Makes the image of the packages, twice, and unpacks it; runs what it says in its root file system, sells, restarts, and
# looks at the stock. Then the compose files, against the image. Needs root, and the packages under [packages] in
# packaging/apt.txt; no network.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
. "$root/packaging/install.sh"
[ "$(id -u)" -eq 0 ] || die "needs root: it runs what it unpacks as the image's user"
cd "$root"
work=$(mktemp -d)
server=
first=

end_server() {
  # The kernel no longer ends the first process with its parent, since it has changed its user. With it all others end.
  [ -z "$first" ] || kill -KILL "$first" 2>/dev/null || true
  [ -z "$server" ] || wait "$server" 2>/dev/null || true
  first=
  server=
}
clean_up() {
  local status=$?
  end_server
  [ "$status" -eq 0 ] || [ ! -s "$work/server.log" ] || tail -n 20 "$work/server.log" >&2
  rm -rf --one-file-system "$work"
  exit $status
}
trap clean_up EXIT

{ cmake --preset debian && cmake --build --preset debian && (cd build/debian && cpack -B "$work/debs"); } >"$work/log" 2>&1 ||
  { tail -n 20 "$work/log" >&2; die "the packages are not built"; }
for n in 1 2; do
  packaging/oci/build.sh "$work/debs" "$work/image$n" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die "no image"; }
done
cmp "$work/image1/index.json" "$work/image2/index.json" || die "the same packages make two images"
umoci unpack --image "$work/image1:lockstock" "$work/bundle" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die "umoci cannot unpack it"; }
config="$work/bundle/config.json"
of() { jq -r "$1" "$config"; }
[ "$(of .process.user.uid)" -gt 0 ] || die "its user is root"
[ ! -e "$work/bundle/rootfs/usr/bin/sh" ] || die "it has a shell"

# As a runtime would: its command, environment, user and directory, with files and processes of its own; the machine's
# network is not seen.
mapfile -t environment < <(of '.process.env[]')
mapfile -t arguments < <(of '.process.args[]')
cat >"$work/begin.sh" <<'EOF'
files=$1 user=$2 directory=$3
shift 3
mount --make-rprivate / && mount -t proc proc "$files/proc" && ip link set lo up && cd "$files$directory" || exit 1
exec chroot --userspec="$user" "$files" "$@"
EOF
start() {
  : >"$work/server.log"
  # chroot changes to /: the store's place is absolute.
  env -i "${environment[@]}" "PATH=/usr/bin:/usr/sbin:/bin:/sbin" LOCKSTOCK_LISTEN=tcp://0.0.0.0:7700,http://0.0.0.0:7702 LOCKSTOCK_INSECURE=true \
    unshare --mount --pid --net --fork --kill-child sh "$work/begin.sh" "$work/bundle/rootfs" \
    "$(of '"\(.process.user.uid):\(.process.user.gid)"')" "$(of .process.cwd)" "${arguments[@]}" >"$work/server.log" 2>&1 &
  server=$!
  for _ in $(seq 300); do
    ! grep -q event=ready "$work/server.log" || break
    kill -0 "$server" 2>/dev/null || die "it does not start"
    sleep 0.1
  done
  first=$(pgrep -P "$server")
  inside status >"$work/log" || die "it does not serve"
  nsenter --target "$first" --net -- /usr/bin/python3 -c \
    'import urllib.request; urllib.request.urlopen("http://127.0.0.1:7702/readyz")' || die "it does not serve HTTP"
}
inside() {
  nsenter --target "$first" --mount --net -- chroot "$work/bundle/rootfs" /usr/bin/lockstock "$@"
}
available() {
  inside stock get tea --json | sed -n 's/.*"available": "\([0-9]*\)".*/\1/p'
}

start
inside stock put tea 100 >"$work/log"
for n in $(seq 10); do
  inside stock deduct "order-$n" --line tea=3 >"$work/log"
done
[ "$(available)" = 70 ] || die "$(available) left, not 70"
kill -TERM "$first"
wait "$server" || die "it does not stop in order"
first=
start
inside stock deduct order-10 --line tea=3 >"$work/log"
[ "$(available)" = 70 ] || die "$(available) left after a restart, not 70"
end_server # kill -9
start
[ "$(available)" = 70 ] || die "$(available) left after a kill, not 70"
end_server
echo "the image sells, and restarts with 70 of 100 left"

# Compose files: images, ports, volumes, programs and settings are those of the image.
/usr/bin/python3 - "$config" "$work/image1" "$work/bundle/rootfs" packaging/oci/compose*.yaml <<'EOF'
import json, os, subprocess, sys
import yaml

config, layout, files = sys.argv[1:4]
index = json.load(open(layout + "/index.json"))
blob = lambda digest: json.load(open(layout + "/blobs/" + digest.replace(":", "/")))
image = blob(blob(index["manifests"][0]["digest"])["config"]["digest"])["config"]
seen = 0
for path in sys.argv[4:]:
    compose = yaml.safe_load(open(path))
    for name, service in compose["services"].items():
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in compose["volumes"], (path, name, volume)
        if service["image"] != "lockstock:latest":
            continue
        seen += 1
        for port in service["ports"]:
            address, _, inner = port.rsplit(":", 2)
            assert address == "127.0.0.1" and inner + "/tcp" in image["ExposedPorts"], (path, name, port)
        for volume in service.get("volumes", []):
            assert volume.split(":")[1] in image["Volumes"], (path, name, volume)
        test = service["healthcheck"]["test"]
        assert test[0] == "CMD" and os.access(files + test[1], os.X_OK), (path, name, test)
        for after in service.get("depends_on", []):
            assert after in compose["services"], (path, name, after)
        environment = dict(entry.split("=", 1) for entry in image["Env"])
        environment.update(service["environment"])
        settings = subprocess.run(["/usr/sbin/chroot", files, image["Entrypoint"][0], "--help"], capture_output=True, text=True, check=True).stdout
        for variable in service["environment"]:
            assert variable.startswith("LOCKSTOCK_"), (path, name, variable)
            assert f"--{variable[10:].lower().replace('_', '-')} " in settings, (path, name, variable)
        subprocess.run(["/usr/sbin/chroot", files, image["Entrypoint"][0], "--check-config"], env=environment, check=True, stdout=subprocess.DEVNULL)
        assert environment["LOCKSTOCK_STORE"].startswith("redis:") or any(
            environment["LOCKSTOCK_STORE"].startswith("embedded:" + v.split(":")[1] + "/") for v in service["volumes"]), (path, name)
        for url in environment["LOCKSTOCK_LISTEN"].split(","):
            assert url.rsplit(":", 1)[1] + "/tcp" in image["ExposedPorts"], (path, name, url)
assert seen == 3, seen
print("the compose files are of this image")
EOF
