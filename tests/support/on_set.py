"""on_set.py cluster|ensemble PROGRAM [ARGUMENT...]: runs a test program whose servers have a Redis Cluster of three primaries, each
with a replica, for their store; or keep their locks in an ensemble of three ZooKeeper servers. For tests that do not access
their store themselves. The data of one run is that of all its tests. Skipped (77) without ZooKeeper."""
import os
import re
import shutil
import subprocess
import sys

from servers import Program

PACKAGING = os.path.join(os.path.dirname(__file__), "../../packaging")

if sys.argv[1] == "cluster":
    command, variable = ["redis-set.sh", "cluster"], "LOCKSTOCK_TEST_STORE"
elif shutil.which("java") and os.path.exists("/usr/share/java/zookeeper.jar"):
    command, variable = ["zookeeper-set.sh", "serve"], "LOCKSTOCK_TEST_ENSEMBLE"
else:
    print("skipped: needs the packages zookeeper and default-jre-headless")
    sys.exit(77)
with Program(f"{PACKAGING}/{command[0]}", command[1], "{dir}/set", ready="(?m)^ready$") as set_of:
    address = re.search(r"(?m)^(?:url|hosts)=(\S+)$", set_of.log())[1]
    code = subprocess.run(sys.argv[2:], env={**os.environ, variable: address}, check=False).returncode
sys.exit(code)
