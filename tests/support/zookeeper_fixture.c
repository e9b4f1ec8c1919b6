/* A member serves when it answers srvr with its mode: then it is the leader or has joined one. */
#include "support/zookeeper_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/ports.h"
#include "support/process.h"
#include "support/sp_peer.h"
#include "support/tempdir.h"

#define CLASS_PATH "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"

enum {
    READY_TIMEOUT_MS = 60000,
    ANSWER_TIMEOUT_S = 2,
    PORTS = 3, /* of a member: for clients, for followers, for elections */
    PATH_BYTES = 128,
};

typedef struct member {
    unsigned short ports[PORTS];
    int port_names[PORTS]; /* as long as these are open */
    process *server;       /* NULL while killed */
} member;

struct zookeeper_fixture {
    size_t n;
    char *dir;
    char hosts[ZOOKEEPER_FIXTURE_MAX * sizeof "127.0.0.1:65535,"];
    member members[ZOOKEEPER_FIXTURE_MAX];
};

bool zookeeper_fixture_can_start(void)
{
    static const char *const needed[] = {"/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar",
                                         "/usr/bin/java"};

    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (access(needed[i], R_OK) != 0) {
            fprintf(stderr, "no %s: install zookeeper and default-jre-headless (packaging/apt.txt)\n", needed[i]);
            return false;
        }
    return true;
}

/* ---- four-letter words ---------------------------------------------------------------- */

char *zookeeper_fixture_ask(const zookeeper_fixture *fixture, size_t i, const char *word)
{
    struct timeval limit = {.tv_sec = ANSWER_TIMEOUT_S};
    char reply[16384];
    size_t used = 0;
    ssize_t n = 0;
    int fd = sp_peer_connect(fixture->members[i].ports[0], 0);

    if (fd < 0)
        return NULL;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (sp_peer_send(fd, word, strlen(word)))
        while (used < sizeof reply - 1 && (n = recv(fd, reply + used, sizeof reply - 1 - used, 0)) > 0)
            used += (size_t)n;
    close(fd);
    reply[used] = '\0';
    return used > 0 ? strdup(reply) : NULL;
}

static bool has_mode(const zookeeper_fixture *fixture, size_t i, const char *mode)
{
    char *reply = zookeeper_fixture_ask(fixture, i, "srvr");
    const char *line = reply ? strstr(reply, "Mode: ") : NULL;
    bool has = line && strncmp(line + strlen("Mode: "), mode, strlen(mode)) == 0;

    free(reply);
    return has;
}

int zookeeper_fixture_leader(const zookeeper_fixture *fixture)
{
    for (size_t i = 0; i < fixture->n; i++)
        if (fixture->members[i].server && has_mode(fixture, i, fixture->n > 1 ? "leader" : "standalone"))
            return (int)i;
    return -1;
}

bool zookeeper_fixture_wait(zookeeper_fixture *fixture)
{
    long long end = process_now_ms() + READY_TIMEOUT_MS;

    for (size_t i = 0; i < fixture->n; i++) {
        process *server = fixture->members[i].server;
        while (server && !has_mode(fixture, i, "")) {
            if (process_now_ms() > end || process_wait(server, 0, NULL)) {
                fprintf(stderr, "member %zu of ZooKeeper does not come up:\n%s\n", i, process_output(server));
                return false;
            }
            process_pause();
        }
    }
    return true;
}

/* ---- members ------------------------------------------------------------------------- */

static void path_of(const zookeeper_fixture *fixture, size_t i, const char *file, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%zu%s", fixture->dir, i + 1, file);
}

static bool write_member(const zookeeper_fixture *fixture, size_t i)
{
    char path[PATH_BYTES], text[1024], id[24];
    int used;

    path_of(fixture, i, "", path);
    if (mkdir(path, 0700) != 0) {
        perror(path);
        return false;
    }
    used = snprintf(text, sizeof text,
                    "tickTime=500\ninitLimit=20\nsyncLimit=4\ndataDir=%s\nclientPort=%u\nclientPortAddress=127.0.0.1\n"
                    "admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n",
                    path, fixture->members[i].ports[0]);
    for (size_t k = 0; fixture->n > 1 && k < fixture->n; k++)
        used += snprintf(text + used, sizeof text - (size_t)used, "server.%zu=127.0.0.1:%u:%u\n", k + 1,
                         fixture->members[k].ports[1], fixture->members[k].ports[2]);
    snprintf(id, sizeof id, "%zu\n", i + 1);
    path_of(fixture, i, "/zoo.cfg", path);
    if (!tempdir_write(path, text))
        return false;
    path_of(fixture, i, "/myid", path);
    return tempdir_write(path, id);
}

bool zookeeper_fixture_start_again(zookeeper_fixture *fixture, size_t i)
{
    char config[PATH_BYTES];
    const char *const args[] = {"/usr/bin/java",
                                "-Xms32m",
                                "-Xmx96m",
                                "-XX:+UseSerialGC",
                                "-XX:TieredStopAtLevel=1",
                                "-XX:-UsePerfData",
                                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                                "-Dzookeeper.forceSync=no",
                                "-cp",
                                CLASS_PATH,
                                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                                config,
                                NULL};

    path_of(fixture, i, "/zoo.cfg", config);
    process_free(fixture->members[i].server);
    fixture->members[i].server = process_spawn(args, NULL);
    return fixture->members[i].server != NULL;
}

void zookeeper_fixture_signal(zookeeper_fixture *fixture, size_t i, int signal_number)
{
    member *m = &fixture->members[i];

    if (!m->server)
        return;
    if (signal_number != SIGKILL) {
        siginfo_t stopped;
        process_signal(m->server, signal_number);
        if (signal_number == SIGSTOP) /* its threads still run for a moment */
            waitid(P_PID, (id_t)process_pid(m->server), &stopped, WSTOPPED);
        return;
    }
    process_free(m->server);
    m->server = NULL;
}

const char *zookeeper_fixture_hosts(const zookeeper_fixture *fixture)
{
    return fixture->hosts;
}

unsigned short zookeeper_fixture_port(const zookeeper_fixture *fixture, size_t i)
{
    return fixture->members[i].ports[0];
}

zookeeper_fixture *zookeeper_fixture_start(size_t n)
{
    zookeeper_fixture *fixture = calloc(1, sizeof *fixture);
    size_t used = 0;
    bool started = true;

    if (!fixture)
        return NULL;
    fixture->n = n;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < PORTS; k++)
            fixture->members[i].port_names[k] = ports_take(&fixture->members[i].ports[k]);
        used += (size_t)snprintf(fixture->hosts + used, sizeof fixture->hosts - used, "%s127.0.0.1:%u",
                                 i > 0 ? "," : "", fixture->members[i].ports[0]);
    }
    fixture->dir = tempdir_make();
    for (size_t i = 0; i < n && started; i++)
        started = fixture->dir && write_member(fixture, i) && zookeeper_fixture_start_again(fixture, i);
    if (started && zookeeper_fixture_wait(fixture))
        return fixture;
    zookeeper_fixture_free(fixture);
    return NULL;
}

void zookeeper_fixture_free(zookeeper_fixture *fixture)
{
    if (!fixture)
        return;
    for (size_t i = 0; i < fixture->n; i++) {
        process_free(fixture->members[i].server);
        for (size_t k = 0; k < PORTS; k++)
            close(fixture->members[i].port_names[k]);
    }
    if (fixture->dir)
        tempdir_remove(fixture->dir);
    free(fixture);
}
