#!/usr/bin/env bash
# packaging/oci/test.sh
#
# Makes the image of the packages twice and unpacks it. Runs its command in its root file system, sells, restarts, and checks
# the stock. Then checks the compose files against the image. Needs root, and the packages under [packages] in
# packaging/apt.txt; no network.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
. "$root/packaging/install.sh"
need_root "it runs the unpacked image as the image's user"
cd "$root"
work=$(mktemp -d)
server=
first=

end_server() {
  # The first process changed its user, so the kernel does not end it with its parent. The others end with it.
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

logged "$work/log" "the packages are not built" build_debs . "$work/debs"
for n in 1 2; do
  logged "$work/log" "no image" packaging/oci/build.sh "$work/debs" "$work/image$n"
done
cmp "$work/image1/index.json" "$work/image2/index.json" || die "the same packages make two images"
logged "$work/log" "umoci cannot unpack it" umoci unpack --image "$work/image1:lockstock" "$work/bundle"
config="$work/bundle/config.json"
of() { jq -r "$1" "$config"; }
[ "$(of .process.user.uid)" -gt 0 ] || die "its user is root"
[ ! -e "$work/bundle/rootfs/usr/bin/sh" ] || die "it has a shell"

# Runs it as a container runtime would: its command, environment, user, directory, files and processes, without the machine's
# network.
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
  # chroot changes to /: the path of the store is absolute.
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
wait "$server" || die "it does not stop cleanly"
first=
start
inside stock deduct order-10 --line tea=3 >"$work/log"
[ "$(available)" = 70 ] || die "$(available) left after a restart, not 70"
end_server # kill -9
start
[ "$(available)" = 70 ] || die "$(available) left after a kill, not 70"
end_server
echo "the image sells, and restarts with 70 of 100 left"

# The images, ports, volumes, programs and settings of the compose files are those of the image.
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
print("the compose files fit this image")
EOF
