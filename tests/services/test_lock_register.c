/* Workers that are forced out of their leases, freeze, wake late and write, over a
 * register that is a program of its own: hours of leases, on a driven clock that also
 * steps back, and with data that is lost. A grant's fence is always the highest; who
 * writes with an older one is refused, and no fence has two owners. */
#include "services/lock_script.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/counts.h"

enum { WORKERS = 8, LEASE_SECONDS_MAX = 60 };

/* ---- the register ---------------------------------------------------------------- */

typedef struct register_process {
    pid_t pid;
    FILE *to, *from;
} register_process;

static register_process start_register(void)
{
    int in[2], out[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        execl(FENCED_REGISTER_PATH, "fenced_register", (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    return (register_process){.pid = pid, .to = fdopen(in[1], "w"), .from = fdopen(out[0], "r")};
}

/* Whether the register takes the write. */
static bool write_with(register_process *r, int worker, uint64_t with)
{
    char line[16];
    fprintf(r->to, "worker-%d %" PRIu64 "\n", worker, with);
    fflush(r->to);
    if (!fgets(line, sizeof line, r->from))
        fail_msg("the register ended at worker-%d's fence %" PRIu64, worker, with);
    return strcmp(line, "OK\n") == 0;
}

static void stop_register(register_process *r)
{
    int status;
    fclose(r->to);
    fclose(r->from);
    assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- the world -------------------------------------------------------------------- */

typedef struct world {
    unsigned seed;
    int64_t clock_s, latest_s; /* how far the clock was moved; the furthest */
    int64_t loss_s;            /* what the clock must not step back past: the last loss of data */
    uint64_t granted;          /* the highest fence given */
    uint64_t fences[WORKERS];  /* what each believes to hold; 0 = nothing */
    char tokens[WORKERS][16];
    size_t n_grants, n_late;
    register_process reg;
} world;

static unsigned roll(world *w, unsigned n)
{
    return (unsigned)rand_r(&w->seed) % n;
}

static void move_clock(world *w, int64_t seconds)
{
    pass_seconds(seconds);
    w->clock_s += seconds;
    if (w->clock_s > w->latest_s)
        w->latest_s = w->clock_s;
}

static void try_to_lock(world *w, int i)
{
    snprintf(w->tokens[i], sizeof w->tokens[i], "W%d.%zu", i, w->n_grants);
    const char *said = acquire_for(w->tokens[i], "hot", 1000 * (1 + (int64_t)roll(w, LEASE_SECONDS_MAX)));
    if (strcmp(said, "ACQUIRED") != 0)
        return;
    if (fence() <= w->granted)
        fail_msg("a fence went back from %" PRIu64 " to %" PRIu64, w->granted, fence());
    w->granted = w->fences[i] = fence();
    w->n_grants++;
    assert_true(write_with(&w->reg, i, fence()));
}

/* A worker that holds, or believes so, writes: right only if nobody came after it. */
static void try_to_write(world *w, int i)
{
    bool taken = write_with(&w->reg, i, w->fences[i]);
    assert_int_equal(taken, w->fences[i] == w->granted);
    w->n_late += !taken;
}

static void step_back(world *w, int64_t seconds)
{
    int64_t room = w->clock_s - w->loss_s;
    move_clock(w, -(seconds < room ? seconds : room));
}

static void lose_the_data(world *w)
{
    if (w->clock_s < w->latest_s)
        move_clock(w, w->latest_s - w->clock_s);
    w->loss_s = w->clock_s;
    harness_redis(h, "EVAL %s 0",
                  "for _, key in ipairs(redis.call('KEYS', 'ls:{default/*')) do redis.call('DEL', key) end");
}

static void step(world *w)
{
    int i = (int)roll(w, WORKERS);
    unsigned what = roll(w, 100);

    if (what < 15)
        move_clock(w, (int64_t)roll(w, 40));
    else if (what < 18)
        step_back(w, (int64_t)roll(w, 20));
    else if (what < 19)
        lose_the_data(w);
    else if (w->fences[i] == 0)
        try_to_lock(w, i);
    else if (what < 80)
        try_to_write(w, i);
    else {
        if (what < 90)
            release(w->tokens[i], ""); /* else it simply goes away */
        w->fences[i] = 0;
    }
}

TEST(no_fence_goes_back)
{
    size_t steps = counts_of(3000, 200000);
    world w = {.seed = (unsigned)time(NULL), .reg = start_register()};
    const unsigned seed = w.seed;
    print_message("seed %u\n", seed);
    for (size_t n = 0; n < steps; n++) {
        step(&w);
        if (n % 1000 == 0)
            harness_forget(h);
    }
    stop_register(&w.reg);
    print_message("%zu grants, %zu late writes refused, %" PRId64 " hours of leases\n", w.n_grants, w.n_late,
                  w.latest_s / 3600);
    assert_true(w.n_grants > steps / 100 && w.n_late > 0 && w.latest_s >= 3600);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)
