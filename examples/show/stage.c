/* A player's life:
 *
 *   RUNS --ended, status 0, a client--> DONE
 *     \--struck--> DOWN --DOWN_MS--> RUNS
 *
 * Any other end is a fault of the program, and ends the show. */
#include "stage.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "children.h"
#include "client.h"
#include "patience.h"
#include "shops.h"

enum {
    DOWN_MS = 700,
    MOMENT_MS = 2000, /* until what a key strikes is in the middle of something, at most */
    FREEZE_MS = 1000,
    FREEZE_MAX_MS = 5000,
    START_MS = 10000,
    LOOK_MS = 5,
    LOOK_AWAY_NS = 50 * 1000,
    DIR_MAX = 72, /* a socket's path has less than 108 bytes */
    LOG_PATH_MAX = 144,
    LOG_TOLD = 4000, /* bytes */
};

typedef enum life { NOT_STARTED, RUNS, STRUCK, DOWN, DONE } life;

typedef struct player {
    char name[48];
    life life;
    pid_t pid;
    int64_t back_ms; /* of DOWN */
    shop_side side;  /* of a client */
    int index;       /* of a client; -1 = a server */
    char listen[128], store[128];
} player;

typedef struct frozen {
    player *who; /* NULL = nobody */
    int64_t since_ms;
    uint64_t fence; /* of the till, then */
} frozen;

struct stage {
    const char *lockstockd, *self;
    crowd *crowd;
    int crowd_fd;
    news *said;
    char dir[DIR_MAX];
    player keeper, servers[SERVERS], clients[SIDES][CLIENTS];
    int next_server; /* whom the key strikes next */
    pid_t redis_struck;
    frozen frozen[SIDES];
    unsigned late_told;
    const player *failed; /* ended as nobody wanted */
};

static const char *const shop_names[SIDES] = {"the naive shop's", "lockstock's"};

/* ---- starting -------------------------------------------------------------------- */

static void log_path(const stage *s, const player *p, char path[LOG_PATH_MAX])
{
    snprintf(path, LOG_PATH_MAX, "%s/%s.log", s->dir, p->name);
}

static lks_code start(stage *s, player *p, lks_error *error)
{
    char log[LOG_PATH_MAX], side_text[8], index_text[8];
    const char *serve[] = {s->lockstockd, "--listen", p->listen, "--store", p->store, "--fsync", "always", NULL};
    const char *buy[] = {s->self, CLIENT_FLAG, side_text, index_text, NULL};

    log_path(s, p, log);
    snprintf(side_text, sizeof side_text, "%d", (int)p->side);
    snprintf(index_text, sizeof index_text, "%d", p->index);
    if (p->index >= 0) { /* what the one that was killed left behind */
        unsigned number = (unsigned)p->index + 1;
        atomic_compare_exchange_strong(&s->crowd->holder[p->side], &number, 0);
        if (p->side == EXACT)
            atomic_store(&s->crowd->asking[p->index], 0);
    }
    lks_code code = player_start(p->index >= 0 ? buy : serve, log, p->index >= 0 ? s->crowd_fd : -1, &p->pid, error);
    if (code == LKS_OK)
        p->life = RUNS;
    return code;
}

static lks_code make_dir(stage *s, lks_error *error)
{
    const char *temporary = getenv("TMPDIR");
    const char *name = "lockstock-show-XXXXXX";

    if (!temporary || temporary[0] != '/' || strlen(temporary) + strlen(name) + 2 > sizeof s->dir)
        temporary = "/tmp";
    snprintf(s->dir, sizeof s->dir, "%.48s/%s", temporary, name);
    if (mkdtemp(s->dir))
        return LKS_OK;
    lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "cannot make %s: %s", s->dir, strerror(errno));
    s->dir[0] = '\0';
    return LKS_UNAVAILABLE;
}

/* The naive shop's shelf is filled as soon as Redis is there. */
static lks_code await_redis(stage *s, lks_error *error)
{
    int64_t end_ms = clock_ms() + START_MS;
    lks_code code;

    while ((code = naive_put(s->crowd, error)) != LKS_OK && clock_ms() < end_ms) {
        lks_error ended = {0};
        clock_rest(LOOK_MS);
        if (stage_tick(s, &ended) != LKS_OK) {
            *error = ended;
            return error->code;
        }
    }
    return code;
}

lks_code stage_open(const char *lockstockd, const char *self, crowd *c, int crowd_fd, news *said, stage **ret,
                    lks_error *error)
{
    stage *s = calloc(1, sizeof *s);

    if (!s)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *s = (stage){.lockstockd = lockstockd, .self = self, .crowd = c, .crowd_fd = crowd_fd, .said = said};
    lks_code code = make_dir(s, error);
    if (code != LKS_OK)
        goto failed;
    s->keeper = (player){.name = "the keeper of Redis", .index = -1};
    snprintf(s->keeper.listen, sizeof s->keeper.listen, "unix://%s/keeper.sock", s->dir);
    snprintf(s->keeper.store, sizeof s->keeper.store, "embedded:%s/data", s->dir);
    snprintf(c->redis, sizeof c->redis, "%s/data/redis.sock", s->dir);
    for (int i = 0; i < SERVERS; i++) {
        player *p = &s->servers[i];
        *p = (player){.index = -1};
        snprintf(p->name, sizeof p->name, "server %d", i + 1);
        snprintf(p->listen, sizeof p->listen, "unix://%s/%d.sock", s->dir, i + 1);
        snprintf(p->store, sizeof p->store, "unix://%s", c->redis);
        snprintf(c->urls[i], sizeof c->urls[i], "%s", p->listen);
    }
    for (int k = 0; k < SIDES; k++) {
        for (int i = 0; i < CLIENTS; i++) {
            s->clients[k][i] = (player){.side = (shop_side)k, .index = i};
            snprintf(s->clients[k][i].name, sizeof s->clients[k][i].name, "%s client %d", shop_names[k], i + 1);
        }
    }
    if ((code = start(s, &s->keeper, error)) != LKS_OK || (code = await_redis(s, error)) != LKS_OK)
        goto failed;
    for (int i = 0; code == LKS_OK && i < SERVERS; i++)
        code = start(s, &s->servers[i], error);
    if (code != LKS_OK)
        goto failed;
    *ret = s;
    return LKS_OK;

failed:
    stage_close(s, stderr);
    return code;
}

lks_code stage_let_in(stage *s, lks_error *error)
{
    lks_code code = LKS_OK;

    for (int i = 0; i < CLIENTS; i++)
        for (int k = 0; code == LKS_OK && k < SIDES; k++)
            code = start(s, &s->clients[k][i], error);
    return code;
}

/* ---- going on -------------------------------------------------------------------- */

static lks_code reap(stage *s, player *p, lks_error *error)
{
    int how = 0;

    if ((p->life != RUNS && p->life != STRUCK) || waitpid(p->pid, &how, WNOHANG) != p->pid)
        return LKS_OK;
    p->pid = 0;
    if (p->life == STRUCK) {
        p->life = DOWN;
        p->back_ms = clock_ms() + DOWN_MS;
        return LKS_OK;
    }
    p->life = DONE;
    if (p->index >= 0 && WIFEXITED(how) && WEXITSTATUS(how) == 0)
        return LKS_OK;
    s->failed = p;
    return lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_NO, "%s ended by itself, %s %d", p->name,
                         WIFSIGNALED(how) ? "signal" : "exit status",
                         WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
}

static lks_code care(stage *s, player *p, lks_error *error)
{
    lks_code code = reap(s, p, error);

    if (code != LKS_OK || p->life != DOWN || clock_ms() < p->back_ms)
        return code;
    if (p->index < 0)
        news_add(s->said, "%s is started again", p->name);
    else if (p->side == EXACT)
        news_add(s->said, "new clients go on: lockstock's asks again by the same order ids");
    return start(s, p, error);
}

static void look_at_redis(stage *s)
{
    pid_t now = s->redis_struck != 0 ? player_child_of(s->keeper.pid, "redis-server") : 0;

    if (now != 0 && now != s->redis_struck) {
        news_add(s->said, "Redis runs again, with all that was acknowledged (appendfsync always)");
        s->redis_struck = 0;
    }
}

static void thaw(stage *s, shop_side side)
{
    frozen *f = &s->frozen[side];
    int64_t ms = clock_ms() - f->since_ms;
    bool was_followed = side == NAIVE || atomic_load(&s->crowd->till_fence) > f->fence;

    if (f->who && ms >= FREEZE_MS && (was_followed || ms >= FREEZE_MAX_MS)) {
        kill(f->who->pid, SIGCONT);
        news_add(s->said, "%s goes on, and writes what it had in mind", f->who->name);
        f->who = NULL;
    }
}

static void tell_late(stage *s)
{
    unsigned late = atomic_load(&s->crowd->till_late);

    if (late != s->late_told)
        news_add(s->said, "a late write to the till was refused, by its fence");
    s->late_told = late;
}

lks_code stage_tick(stage *s, lks_error *error)
{
    lks_code code = care(s, &s->keeper, error);

    for (int i = 0; code == LKS_OK && i < SERVERS; i++)
        code = care(s, &s->servers[i], error);
    for (int i = 0; i < SIDES * CLIENTS && code == LKS_OK; i++)
        code = care(s, &s->clients[i % SIDES][i / SIDES], error);
    look_at_redis(s);
    for (int k = 0; k < SIDES; k++)
        thaw(s, (shop_side)k);
    tell_late(s);
    if (atomic_load(&s->crowd->opens_ms) == 0 && atomic_load(&s->crowd->ready) >= SIDES * CLIENTS)
        atomic_store(&s->crowd->opens_ms, clock_ms());
    return code;
}

bool stage_is_over(const stage *s)
{
    for (int i = 0; i < SIDES * CLIENTS; i++)
        if (s->clients[i % SIDES][i / SIDES].life != DONE)
            return false;
    return true;
}

/* ---- what the keys do ------------------------------------------------------------ */

static bool is_frozen(const stage *s, const player *p)
{
    return s->frozen[p->side].who == p;
}

/* Who wakes up runs before those that compute: so a moment that is short is seen on a busy machine, too. */
static void look_away(void)
{
    nanosleep(&(struct timespec){.tv_nsec = LOOK_AWAY_NS}, NULL);
}

static bool somebody_is_to_buy(const stage *s)
{
    totals t = crowd_totals(s->crowd, EXACT);

    return t.away + t.asks > 0;
}

/* A client that has a call at lockstock under way, as soon as there is one; else one that runs; NULL: none does. */
static player *client_in_the_middle(stage *s)
{
    int64_t end_ms = clock_ms() + MOMENT_MS;
    player *any = NULL;

    do {
        for (int i = 0; i < CLIENTS; i++) {
            player *p = &s->clients[EXACT][i];
            if (p->life != RUNS || is_frozen(s, p))
                continue;
            any = p;
            if (atomic_load(&s->crowd->asking[i]) > 0)
                return p;
        }
        look_away();
    } while (any && clock_ms() < end_ms && somebody_is_to_buy(s));
    return any;
}

static void strike(player *p)
{
    kill(p->pid, SIGKILL);
    p->life = STRUCK;
}

void stage_kill_server(stage *s)
{
    player *p = &s->servers[s->next_server];

    if (p->life != RUNS) {
        news_add(s->said, "%s is down already", p->name);
        return;
    }
    s->next_server = (s->next_server + 1) % SERVERS;
    client_in_the_middle(s);
    strike(p);
    news_add(s->said, "kill -9 of %s (process %d)", p->name, (int)p->pid);
}

void stage_kill_redis(stage *s)
{
    pid_t pid = player_child_of(s->keeper.pid, "redis-server");

    if (pid == 0 || pid == s->redis_struck) {
        news_add(s->said, "Redis is down already");
        return;
    }
    client_in_the_middle(s);
    kill(pid, SIGKILL);
    s->redis_struck = pid;
    news_add(s->said, "kill -9 of Redis (process %d), which both shops use", (int)pid);
}

void stage_kill_client(stage *s)
{
    player *ours = client_in_the_middle(s);

    if (!ours) {
        news_add(s->said, "no client runs any more");
        return;
    }
    strike(ours); /* at once: its call is under way now */
    player *naive = &s->clients[NAIVE][ours->index];
    if (naive->life == RUNS && !is_frozen(s, naive)) {
        strike(naive);
        news_add(s->said, "kill -9 of client %d of each shop (process %d and %d)", ours->index + 1, (int)naive->pid,
                 (int)ours->pid);
    } else {
        news_add(s->said, "kill -9 of %s (process %d)", ours->name, (int)ours->pid);
    }
}

/* Stops the client that holds, while it has a write before it. */
static void freeze(stage *s, shop_side side)
{
    crowd *c = s->crowd;
    int64_t end_ms = clock_ms() + MOMENT_MS;
    frozen *f = &s->frozen[side];

    do {
        unsigned held_by = atomic_load(&c->holder[side]);
        player *p = held_by > 0 && held_by <= CLIENTS ? &s->clients[side][held_by - 1] : NULL;
        if (p && p->life == RUNS && player_freeze(p->pid)) {
            if (atomic_load(&c->holder[side]) == held_by) {
                *f = (frozen){.who = p, .since_ms = clock_ms(), .fence = atomic_load(&c->till_fence)};
                news_add(s->said, "%s is frozen, and holds its %s", p->name, side == NAIVE ? "lock" : "till");
                return;
            }
            kill(p->pid, SIGCONT);
        }
        look_away();
    } while (clock_ms() < end_ms);
    news_add(s->said, "nobody holds %s %s now", shop_names[side], side == NAIVE ? "lock" : "till");
}

void stage_freeze(stage *s)
{
    for (int k = 0; k < SIDES; k++)
        if (!s->frozen[k].who && (k == EXACT || s->crowd->form != NAIVE_DECR))
            freeze(s, (shop_side)k);
}

/* ---- the end --------------------------------------------------------------------- */

void stage_end_clients(stage *s)
{
    for (int i = 0; i < SIDES * CLIENTS; i++) {
        player *p = &s->clients[i % SIDES][i / SIDES];
        if (p->life == RUNS || p->life == STRUCK)
            player_kill(p->pid);
        p->life = DONE;
        s->frozen[p->side].who = NULL;
    }
}

lks_code stage_revive_servers(stage *s, lks_error *error)
{
    lks_code code = LKS_OK;

    for (int i = 0; code == LKS_OK && i < SERVERS; i++) {
        player *p = &s->servers[i];
        if (p->life == STRUCK)
            player_kill(p->pid);
        if (p->life != RUNS)
            code = start(s, p, error);
    }
    return code;
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *at)
{
    (void)found;
    (void)kind;
    (void)at;
    remove(path);
    return 0;
}

/* The end of its log. */
static void tell_log(const stage *s, const player *p, FILE *out)
{
    char path[LOG_PATH_MAX], line[512];

    log_path(s, p, path);
    FILE *log = fopen(path, "re");
    if (!log)
        return;
    fprintf(out, "--- the end of the log of %s ---\n", p->name);
    if (fseek(log, -LOG_TOLD, SEEK_END) != 0)
        rewind(log);
    while (fgets(line, sizeof line, log))
        fputs(line, out);
    fclose(log);
}

static bool stop(stage *s, player *p)
{
    bool clean = p->life != RUNS || player_stop(p->pid);

    if (!clean && !s->failed)
        s->failed = p;

    if (p->life == STRUCK)
        player_kill(p->pid);
    p->life = DONE;
    return clean;
}

bool stage_close(stage *s, FILE *out)
{
    bool clean = true;

    if (!s)
        return true;
    stage_end_clients(s);
    for (int i = 0; i < SERVERS; i++)
        clean &= stop(s, &s->servers[i]);
    clean &= stop(s, &s->keeper);
    if (s->failed)
        tell_log(s, s->failed, out);
    if (s->dir[0] != '\0')
        nftw(s->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(s);
    return clean;
}
