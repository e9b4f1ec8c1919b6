"""The stores of a torture run: the flags for lockstockd, and the faults that each can have."""
import asyncio
import contextlib
import glob
import os
import resource
import signal

from processes import HERE, SOURCE, Caller, ClockShift, Program, free_port, is_free, link_of, mend_aof, run, until

REDIS_SET = os.path.join(SOURCE, "packaging", "redis-set.sh")
NETWORK = "127.0.0.2"  # where nodes of a set and members of an ensemble reach each other, through network.py
BUS = 10000            # as in network.py
MOVED_MAX, MOVE_S = 400, 600  # slots, and the seconds that a move may last
SET_BACK = (("CONFIG", "SET", "maxmemory", "0"), ("CLIENT", "UNPAUSE"))
FAILOVER_S = 3
CUT_S = 10             # a partition lasts, at most


class Store:
    """Common: `urls`, --store of each lockstockd; `faults`, names of what can be done to it beyond what all have."""
    faults = []
    not_by_itself = ()      # of these, those that are done only if --faults names them
    common = None           # names of the faults of processes and Redis; None: all

    def __init__(self):
        self.flags = {}  # more flags of each lockstockd
        self.changing = asyncio.Lock()

    def server_env(self, i):
        return self.files.env

    def may_lose(self, flags):
        """Whether a failover may lose answered writes, with these flags of lockstockd's."""
        return False

    async def start(self, n_servers):
        raise NotImplementedError

    async def command(self, *words):
        """One command to each redis-server that can be written to; failures do not matter."""
        raise NotImplementedError

    async def restore(self):
        """Ends the faults that commands began on each redis-server: maxmemory and paused clients."""
        for words in SET_BACK:
            await self.command(*words)

    def pids(self):
        """Of the redis-servers that run."""
        raise NotImplementedError

    async def heal(self):
        """All runs again."""

    async def agree(self):
        """Waits until all nodes agree on their roles."""

    async def close(self):
        pass

    async def _start_network(self, folder, nodes):
        self.network = Caller("network", ["/usr/bin/python3", os.path.join(HERE, "network.py"), NETWORK, nodes, folder],
                              f"{folder}/network.log")
        await self.network.start()

    async def _cut(self, rng, these, those):
        """Nothing passes between the two for a while, or nothing in one direction."""
        pairs = [(a, b) for a in these for b in those], [(b, a) for a in these for b in those]
        way = rng.choice(["both", "both", "out", "in"])
        await self.network.call("block", {"pairs": (pairs[0] if way != "in" else []) + (pairs[1] if way != "out" else [])}, 0)
        await asyncio.sleep(rng.random() * rng.choice([FAILOVER_S, CUT_S]))
        await self.network.call("pass", {"drop": rng.random() < 0.5}, 0)
        await self.agree()
        return {"these": sorted(these), "way": way}


class Embedded(Store):
    faults = ["redis_killed", "redis_stopped", "power_lost"]

    def __init__(self, folder, files):
        super().__init__()
        self.data, self.files = os.path.join(folder, "data"), files

    async def start(self, n_servers):
        # The first server runs it; the others are its guests.
        self.urls = [f"embedded:{self.data}"] + [f"unix://{self.data}/redis.sock"] * (n_servers - 1)

    async def command(self, *words):
        return await run("redis-cli", "-s", f"{self.data}/redis.sock", *words, limit_s=10)

    def pids(self):
        server = self.servers[0].pid
        found = []
        for task in os.listdir(f"/proc/{server}/task") if server else []:
            with open(f"/proc/{server}/task/{task}/children") as children:
                found += [int(pid) for pid in children.read().split()]
        return found

    async def redis_killed(self, rng):
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)  # the server starts it again

    async def power_lost(self, rng):
        """Both are gone at once, and with them what had not reached the disk."""
        async with self.servers[0].busy:
            pids = self.pids()
            self.servers[0].signal(signal.SIGSTOP)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            await self.servers[0].kill()
            await until("end of redis-server", lambda: not any(_runs(pid) for pid in pids))
            lost = self.files.lose_unsynced(self.data, rng)
            await self.servers[0].start()
        return {"bytes": lost}


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class OneRedis(Store):
    faults = ["redis_killed", "redis_stopped", "power_lost", "link_cut", "link_delayed", "link_silent", "link_refused"]

    def __init__(self, folder, files):
        super().__init__()
        self.folder, self.data, self.files = folder, os.path.join(folder, "redis"), files
        os.mkdir(self.data)
        self.socket = f"{self.data}/redis.sock"

    async def start(self, n_servers):
        words = [f"{self.files.bin}/redis-server", "--port", "0", "--unixsocket", self.socket, "--dir", self.data, "--save",
                 "", "--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no"]
        self.redis = Program(words, f"{self.folder}/redis.log", self.files.env, b"ccept connections")
        await self.redis.start()
        self.links = []
        for i in range(n_servers):
            link = link_of(f"link{i}", f"{self.folder}/link.log", f"{self.folder}/link{i}", self.socket)
            await link.start()
            self.links.append(link)
        await until("link", lambda: all(os.path.exists(f"{self.folder}/link{i}") for i in range(n_servers)))
        self.urls = [f"unix://{self.folder}/link{i}" for i in range(n_servers)]

    async def command(self, *words):
        return await run("redis-cli", "-s", self.socket, *words, limit_s=10)

    def pids(self):
        return [self.redis.pid] if self.redis.pid else []

    async def redis_killed(self, rng):
        await self.redis.kill()
        await asyncio.sleep(rng.choice([0, 0, rng.random() * 3]))
        await mend_aof(self.data)
        await self.redis.start()

    async def power_lost(self, rng):
        await self.redis.kill()
        lost = self.files.lose_unsynced(self.data, rng)
        await mend_aof(self.data)
        await self.redis.start()
        return {"bytes": lost}

    async def _link(self, rng, what, **more):
        link = rng.choice(self.links)
        await link.call(what, more, 0)
        return link

    async def link_cut(self, rng):
        """Now, or when so many bytes of answers more have passed: in the middle of one."""
        await self._link(rng, "cut", after=rng.choice([0, rng.randint(1, 2000)]))

    async def _link_for_a_while(self, rng, what, longest_s, **more):
        link = await self._link(rng, what, **more)
        await asyncio.sleep(rng.random() * longest_s)
        await link.call("pass", {}, 0)

    async def link_delayed(self, rng):
        await self._link_for_a_while(rng, "delay", 2, ms=rng.randint(5, 300))

    async def link_silent(self, rng):
        """Nothing passes, and nothing is said: a partition. What was sent meanwhile arrives late, or never."""
        await self._link_for_a_while(rng, "hold", 3, drop=rng.random() < 0.5)

    async def link_refused(self, rng):
        await self._link_for_a_while(rng, "refuse", 1.5)


class Zookeeper(OneRedis):
    """Locks in an ensemble of three, each server with a link of its own to each member; the rest in one Redis. A member
    reaches the others through network.py, which knows it by its port for followers."""
    faults = ["member_killed", "leader_killed", "all_members_killed", "member_stopped", "leader_stopped", "lock_link_cut",
              "lock_link_delayed", "lock_link_silent", "lock_link_refused", "server_alone", "server_with_one_member",
              "server_clock_set", "member_cut_off", "leader_cut_off", "all_members_cut_off", "server_with_minority",
              "member_disk_full", "leader_disk_full", "all_disks_full"]
    # ZooKeeper 3.8.0 itself loses answered writes by these, and at times by two kills: docs/quorum.md.
    not_by_itself = ("member_cut_off", "leader_cut_off", "all_members_cut_off", "server_with_minority", "member_disk_full",
                     "leader_disk_full", "all_disks_full")
    common = ["server_killed", "server_ended", "server_stopped", "caller_killed", "caller_stopped", "messages_doubled"]
    MEMBERS = 3

    def __init__(self, folder, files, classes):
        super().__init__(folder, files)
        self.classes = classes or ":".join(glob.glob("/usr/share/java/*.jar"))
        if classes:
            self.not_by_itself = ()

    async def start(self, n_servers):
        await super().start(n_servers)
        self.ports = [free_port() for _ in range(self.MEMBERS)]  # for clients
        self.nodes = [self._node() for _ in range(self.MEMBERS)]
        self.data = [f"{self.folder}/members/{node}" for node in self.nodes]
        self.members = [self._member(i) for i in range(self.MEMBERS)]
        with open(f"{self.folder}/members/nodes", "w") as out:
            out.write("".join(node + "\n" for node in self.nodes))
        await self._start_network(self.folder, f"{self.folder}/members")
        await asyncio.gather(*(member.start() for member in self.members))
        self.lock_links = []
        for i in range(n_servers):
            links = {str(free_port()): port for port in self.ports}
            self.lock_links.append([link_of(f"locks{i}", f"{self.folder}/link.log", at, str(port)) for at, port in links.items()])
            for link in self.lock_links[-1]:
                await link.start()
            self.flags[i] = ["--lock-store", "zookeeper://" + ",".join(f"127.0.0.1:{at}" for at in links) + "/torture"]
        self.shifts = [ClockShift(f"{self.folder}/shift{i}") for i in range(n_servers)]

    def _node(self):
        """The port for followers; that for elections is BUS above it."""
        while not is_free(port := free_port() - BUS):
            pass
        return str(port)

    def _member(self, i):
        data = self.data[i]
        os.makedirs(data)
        with open(f"{data}/myid", "w") as out:
            out.write(str(i + 1))
        lines = ["tickTime=500", "initLimit=20", "syncLimit=6", f"dataDir={data}", f"clientPort={self.ports[i]}",
                 "clientPortAddress=127.0.0.1", "admin.enableServer=false", "4lw.commands.whitelist=*"]
        lines += [f"server.{k + 1}={'127.0.0.1' if k == i else NETWORK}:{node}:{int(node) + BUS}"
                  for k, node in enumerate(self.nodes)]
        with open(f"{data}/zoo.cfg", "w") as out:
            out.write("\n".join(lines) + "\n")
        member = Program(["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true",
                          "-Dzookeeper.fastleader.maxNotificationInterval=2000",  # or an isolated member stays isolated longer
                          "-cp", self.classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain", f"{data}/zoo.cfg"],
                         f"{self.folder}/member{i}.log")
        member.pid_file = f"{data}/pid"  # where network.py looks for it
        return member

    def server_env(self, i):
        return self.shifts[i].env(self.files.env, self.files.clock)

    async def _mode(self, i):
        """leader, follower or nothing."""
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self.ports[i]), 1)
            writer.write(b"srvr")
            said = await asyncio.wait_for(reader.read(4096), 1)
            writer.close()
            return said.decode().partition("Mode: ")[2].split("\n")[0]
        except (OSError, asyncio.TimeoutError):
            return ""

    async def _leader(self):
        """Its number."""
        modes = await asyncio.gather(*(self._mode(i) for i in range(self.MEMBERS)))
        return modes.index("leader") if "leader" in modes else 0

    async def _killed(self, members, rng):
        async with self.changing:
            for member in members:
                await member.kill()
            await asyncio.sleep(rng.random() * 2)
            for member in members:
                await member.start()

    async def member_killed(self, rng):
        await self._killed([rng.choice(self.members)], rng)

    async def leader_killed(self, rng):
        await self._killed([self.members[await self._leader()]], rng)

    async def all_members_killed(self, rng):
        await self._killed(self.members, rng)

    async def _stopped(self, member, rng):
        async with self.changing:
            member.signal(signal.SIGSTOP)
            await asyncio.sleep(rng.random() * 8)  # a session lasts 6 s
            member.signal(signal.SIGCONT)

    async def member_stopped(self, rng):
        await self._stopped(rng.choice(self.members), rng)

    async def leader_stopped(self, rng):
        await self._stopped(self.members[await self._leader()], rng)

    async def _for_a_while(self, links, rng, longest_s, what, **more):
        for link in links:
            await link.call(what, more, 0)
        await asyncio.sleep(rng.random() * longest_s)
        for link in links:
            await link.call("pass", {}, 0)

    def _a_link(self, rng):
        return [rng.choice(rng.choice(self.lock_links))]

    async def lock_link_cut(self, rng):
        for link in rng.choice(self.lock_links):
            await link.call("cut", {"after": rng.choice([0, rng.randint(1, 2000)])}, 0)

    async def lock_link_delayed(self, rng):
        await self._for_a_while(rng.choice(self.lock_links), rng, 4, "delay", ms=rng.randint(5, 300))

    async def lock_link_silent(self, rng):
        await self._for_a_while(self._a_link(rng), rng, 6, "hold", drop=rng.random() < 0.5)

    async def lock_link_refused(self, rng):
        await self._for_a_while(self._a_link(rng), rng, 3, "refuse")

    async def server_alone(self, rng):
        """Nothing passes between a server and the ensemble, mostly for longer than its session."""
        await self._for_a_while(rng.choice(self.lock_links), rng, 12, "hold", drop=rng.random() < 0.5)

    async def server_with_one_member(self, rng):
        """It reaches one member only, which may be cut off itself."""
        links = rng.choice(self.lock_links)
        one = rng.randrange(self.MEMBERS)
        await asyncio.gather(
            self._for_a_while([link for i, link in enumerate(links) if i != one], rng, 6, "refuse"),
            self._stopped(self.members[(one + 1) % self.MEMBERS], rng) if rng.random() < 0.5 else asyncio.sleep(0))

    async def server_clock_set(self, rng):
        rng.choice(self.shifts).set(rng.choice([-3600, -7, 0, 7, 3600]))

    # Partitions between members. All lockstockd reach all members, if nothing else is said.

    async def _cut_off(self, rng, i):
        return await self._cut(rng, [self.nodes[i]], [node for node in self.nodes if node != self.nodes[i]])

    async def member_cut_off(self, rng):
        """Sometimes one is killed meanwhile, which may be the same."""
        told, _ = await asyncio.gather(self._cut_off(rng, rng.randrange(self.MEMBERS)),
                                       self.member_killed(rng) if rng.random() < 0.3 else asyncio.sleep(0))
        return told

    async def leader_cut_off(self, rng):
        return await self._cut_off(rng, await self._leader())

    async def all_members_cut_off(self, rng):
        return await self._cut(rng, self.nodes, self.nodes)

    async def server_with_minority(self, rng):
        """It reaches the old leader only, which is cut off from the other members."""
        one = await self._leader()
        links = [link for i, link in enumerate(rng.choice(self.lock_links)) if i != one]
        told, _ = await asyncio.gather(self._cut_off(rng, one),
                                       self._for_a_while(links, rng, CUT_S, rng.choice(["hold", "refuse"])))
        return told

    # Full disks.

    @staticmethod
    def _log_end(member):
        """The position at which a member writes its log of transactions; 0: it has none yet."""
        for fd in glob.glob(f"/proc/{member.pid}/fd/*"):
            try:
                if "/version-2/log." in os.readlink(fd):
                    with open(fd.replace("/fd/", "/fdinfo/")) as info:
                        return int(info.readline().split()[1])  # pos: N
            except OSError:  # it has just been closed
                pass
        return 0

    async def _disk_full(self, rng, members):
        """No file of theirs grows beyond the end of its log, or a little more: within a record. Then there is room, and
        they start again."""
        async with self.changing:
            members = [member for member in members if member.pid]  # for 0 the limit would be ours
            for member in members:
                end = self._log_end(member) + rng.choice([0, rng.randint(1, 2000)])
                with contextlib.suppress(ProcessLookupError):  # it has already ended: an earlier disk was full
                    resource.prlimit(member.pid, resource.RLIMIT_FSIZE, (end, resource.RLIM_INFINITY))
            await asyncio.sleep(rng.random() * 5)
            for member in members:  # without a restart it would write after a torn record, and lose that later
                await member.kill()
                await member.start()

    async def member_disk_full(self, rng):
        await self._disk_full(rng, [rng.choice(self.members)])

    async def leader_disk_full(self, rng):
        await self._disk_full(rng, [self.members[await self._leader()]])

    async def all_disks_full(self, rng):
        await self._disk_full(rng, self.members)

    async def heal(self):
        await self.network.call("pass", {}, 0)
        for member in self.members:
            member.signal(signal.SIGCONT)
            if not member.pid:
                await member.start()
        for links in self.lock_links:
            for link in links:
                await link.call("pass", {}, 0)

    async def close(self):
        for member in self.members:
            await member.kill()
        await self.network.close()


class RedisSet(Store):
    """Sentinel or Cluster, by packaging/redis-set.sh, with network.py between all of them and lockstockd."""
    def __init__(self, folder, files, kind):
        super().__init__()
        self.around, self.folder, self.files, self.kind = folder, os.path.join(folder, "set"), files, kind
        self.log = f"{folder}/set.log"
        self.faults = ["primary_killed", "node_stopped", "failed_over", "primary_isolated", "primary_cut_off", "server_cut_off"]
        self.faults.append("slots_moved" if kind == "cluster" else "sentinel_cut_off")

    async def start(self, n_servers):
        await self._start_network(self.around, self.folder)
        self.script = Program([REDIS_SET, self.kind, self.folder, "--announce", NETWORK], self.log, self.files.env,
                              b"\nready")
        await self.script.start()
        self.urls = [(await self.ask("url")).strip()] * n_servers

    def may_lose(self, flags):
        # Each replica that can take the primary's place must have it.
        replicas = {"sentinel": 2, "cluster": 1}[self.kind]
        return not any(flag.startswith("--wait-replicas=") and int(flag.partition("=")[2]) >= replicas for flag in flags)

    async def ask(self, what, *words, **limits):
        return await run(REDIS_SET, what, self.folder, *words, env=self.files.env, **limits)

    async def nodes(self, role=None):
        found = [line.split() for line in (await self.ask("nodes")).splitlines()]
        return [node for node in found if role in (None, node[3])]

    async def _nodes_and_primary(self, rng):
        """The ports of all, and that of one which is a primary."""
        nodes = await self.nodes()
        primaries = [node[0] for node in nodes if node[3] == "master"]
        if not primaries:
            raise RuntimeError("no primary answers")
        return [node[0] for node in nodes], rng.choice(primaries)

    async def a_primary(self, rng):
        return (await self._nodes_and_primary(rng))[1]

    async def command(self, *words):
        return "".join([await self.ask("cli", node[0], *words) for node in await self.nodes("master")])

    async def restore(self):
        # Also on a former primary: Redis without memory refuses the sentinels, which would make it a replica.
        for port, kind, pid, _ in await self.nodes():
            if kind == "redis" and pid != "0":
                for words in SET_BACK:
                    await self.ask("cli", port, *words)

    def pids(self):
        return []

    async def heal(self):
        await self.network.call("pass", {}, 0)
        for port, _, _, role in await self.nodes():
            if role == "dead":
                await self.ask("start", port)

    async def agree(self):
        await self.ask("wait")

    async def close(self):
        await self.script.stop()
        await self.network.close()

    async def primary_killed(self, rng):
        port = await self.a_primary(rng)
        await self.ask("kill", port)
        try:
            await self.ask("failover", port)
        finally:
            await self.ask("start", port)
        await self.ask("wait")

    async def node_stopped(self, rng):
        pid = int(rng.choice(await self.nodes())[2])
        if pid:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(rng.random() * 5)
            os.kill(pid, signal.SIGCONT)
            await self.ask("wait")

    async def failed_over(self, rng):
        await self.ask("failover", await self.a_primary(rng))
        await self.ask("wait")

    # Partitions. Callers reach both lockstockd all the time.

    def _servers(self):
        return [f"server{i}" for i in range(len(self.urls))]

    async def primary_isolated(self, rng):
        """With one lockstockd beside it."""
        nodes, primary = await self._nodes_and_primary(rng)
        server = rng.choice(self._servers())
        others = [name for name in nodes + self._servers() if name not in (primary, server)]
        return await self._cut(rng, [primary, server], others)

    async def primary_cut_off(self, rng):
        """From the other nodes, while all lockstockd reach it."""
        nodes, primary = await self._nodes_and_primary(rng)
        return await self._cut(rng, [primary], [node for node in nodes if node != primary])

    async def server_cut_off(self, rng):
        """From some nodes."""
        nodes, _ = await self._nodes_and_primary(rng)
        return await self._cut(rng, [rng.choice(self._servers())], rng.sample(nodes, rng.randint(1, len(nodes))))

    async def sentinel_cut_off(self, rng):
        """From the other sentinels, or from all nodes."""
        nodes = await self.nodes()
        ports = [node[0] for node in nodes if node[1] == "sentinel" or rng.random() < 0.5]
        sentinel = rng.choice([node[0] for node in nodes if node[1] == "sentinel"])
        return await self._cut(rng, [sentinel], [port for port in ports if port != sentinel])

    async def slots_moved(self, rng):
        # Most slots have keys here.
        first = rng.randrange(16384)
        words = "move", str(first), str(min(first + rng.randint(1, MOVED_MAX), 16383)), await self.a_primary(rng)
        for tries_left in (2, 1, 0):
            try:
                await self.ask(*words, limit_s=MOVE_S)
                return
            except RuntimeError:  # other faults prevented it; the next failover would lose its open changes
                if not tries_left:
                    raise


def store_of(name, folder, files, zookeeper):
    if name == "embedded":
        return Embedded(folder, files)
    if name == "redis":
        return OneRedis(folder, files)
    if name == "zookeeper":
        return Zookeeper(folder, files, zookeeper)
    return RedisSet(folder, files, name)
