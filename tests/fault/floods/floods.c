/* One peer against a lockstockd: each attack of the tables on each wire that it fits, and what it costs the others
 * and the server, printed as a table: memory and descriptors before, at the peak and after, the server's share of a
 * processor, and the others' times, idle and under attack, in phases that alternate. Asserted: the server lives, its
 * memory and descriptors stay within bounds and come back, and the others are served. Times are printed only.
 *
 * With LOCKSTOCK_SOAK: the full counts, floods by 1 and by 16 attackers.
 * LOCKSTOCK_TEST_ONLY='*padding*' runs some. */

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include "attack.h"
#include "others.h"
#include "support/counts.h"
#include "support/process.h"
#include "test.h"

enum {
    ATTACKERS_MAX = 16,
    BUDGET_KIB = 256 * 1024,   /* what all connections may hold (docs/security.md) */
    OVERHEAD_KIB = 128 * 1024, /* of the allocator, of nghttp2 and OpenSSL for what they hold */
    LEFT_KIB = 64 * 1024,      /* that may stay resident when it is over */
    DESCRIPTORS_MORE = 8,      /* that may stay: connections to the store */
    PEAK_MS = 120000,
    SERVED_MS = 60000,
    AFTER_MS = 20000,
};

/* One row of the table. */
typedef struct row {
    const attack *attack;
    wire wire;
    unsigned n; /* attackers */
    bool holds; /* it takes something and keeps it: on a server of its own, and its peak is awaited */
    char name[96];
} row;

typedef struct seen {
    target_figures before, peak, after;
    double cpu, cpu_idle; /* of one processor */
    others_phase idle, attacked;
    size_t connections, left;
} seen;

/* ---- attackers -------------------------------------------------------------------------- */

static struct {
    attacker all[ATTACKERS_MAX];
    pthread_t threads[ATTACKERS_MAX];
    atomic_bool stop;
} crowd;

/* Attackers run at idle priority: they get the processor time that others leave. The row "computes" shows
 * what they take nevertheless. */
static void *attacker_thread(void *arg)
{
    const struct sched_param least = {0};

    sched_setscheduler(0, SCHED_IDLE, &least); /* of this thread */
    attacker_run(arg);
    return NULL;
}

static void start_attackers(const row *r)
{
    atomic_store(&crowd.stop, false);
    for (unsigned i = 0; i < r->n; i++) {
        attacker *a = &crowd.all[i];
        a->attack = r->attack;
        a->wire = r->wire;
        a->nth = i;
        a->stop = &crowd.stop;
        atomic_store(&a->at_peak, false);
        atomic_store(&a->connections, 0);
        atomic_store(&a->left, 0);
        if (pthread_create(&crowd.threads[i], NULL, attacker_thread, a) != 0)
            abort();
    }
}

static void stop_attackers(const row *r, seen *s)
{
    atomic_store(&crowd.stop, true);
    s->connections = s->left = 0;
    for (unsigned i = 0; i < r->n; i++) {
        pthread_join(crowd.threads[i], NULL);
        s->connections += atomic_load(&crowd.all[i].connections);
        s->left += atomic_load(&crowd.all[i].left);
    }
}

static bool all_at_peak(const row *r)
{
    bool all = true;

    for (unsigned i = 0; i < r->n; i++)
        all = all && atomic_load(&crowd.all[i].at_peak);
    return all;
}

/* ---- phases ------------------------------------------------------------------------------- */

static void add_to_peak(target_figures *peak, const target_figures *now)
{
    peak->rss_kib = now->rss_kib > peak->rss_kib ? now->rss_kib : peak->rss_kib;
    peak->descriptors = now->descriptors > peak->descriptors ? now->descriptors : peak->descriptors;
}

/* Measures for `ms` and until each of the others was served; with a row's attackers also until it is at its peak,
 * and then for `ms`. Gives the server's share of a processor. */
static double watch(const row *r, target_figures *peak, long long ms)
{
    target_figures begin = target_measure(), now = begin;
    long long begun = process_now_ms(), end = begun + ms;
    bool waits = r && r->holds;

    do {
        process_pause();
        if (waits && (all_at_peak(r) || process_now_ms() > begun + PEAK_MS)) {
            waits = false;
            end = process_now_ms() + ms;
        }
        now = target_measure();
        add_to_peak(peak, &now);
    } while (now.rss_kib > 0 &&
             (waits || process_now_ms() < end || (!others_were_served() && process_now_ms() < begun + SERVED_MS)));
    return (now.cpu_s - begin.cpu_s) * 1000 / (double)(process_now_ms() - begun + 1);
}

/* Until connections, and memory beyond left_kib more, have come back, or do not. */
static target_figures settle(const target_figures *before, size_t left_kib)
{
    long long end = process_now_ms() + AFTER_MS;
    target_figures now;

    do {
        process_pause();
        now = target_measure();
    } while (now.rss_kib > 0 && process_now_ms() < end &&
             (now.descriptors > before->descriptors + DESCRIPTORS_MORE || now.rss_kib > before->rss_kib + left_kib));
    return now;
}

static void measure(const row *r, seen *s)
{
    size_t rounds = r->holds ? 1 : counts_of(1, 3);
    long long idle_ms = (long long)counts_of(100, 500), attack_ms = (long long)counts_of(300, 1000);
    wire elsewhere = target_uses_h2(r->wire) ? WIRE_TCP : WIRE_GRPC;

    if (r->attack->prepare)
        r->attack->prepare();
    assert_true(others_open(r->wire, elsewhere));
    s->before = s->peak = target_measure();
    for (size_t i = 0; i < rounds && target_measure().rss_kib > 0; i++) {
        others_go(&s->idle);
        s->cpu_idle += watch(NULL, &s->peak, idle_ms) / (double)rounds;
        others_pause();
        start_attackers(r);
        others_go(&s->attacked);
        s->cpu += watch(r, &s->peak, attack_ms) / (double)rounds;
        others_pause();
        stop_attackers(r, s);
        settle(&s->before, SIZE_MAX / 2); /* what was sent is worked off */
    }
    others_close();
    s->after = settle(&s->before, LEFT_KIB);
}

/* ---- what is printed ---------------------------------------------------------------------- */

static size_t mib(size_t kib)
{
    return (kib + 512) / 1024;
}

static void print_head(void)
{
    printf("%-32s %5s | %-14s | %-17s | %4s | %s\n", "attack, wire, attackers", "conns", "MiB bef/pk/aft",
           "fds bef/peak/aft", "cpu%",
           "p50/p99/worst us, idle > attacked (p99 ratio): on the same wire; elsewhere; newcomers");
}

static void print_row(const row *r, seen *s)
{
    printf("%-32s %5zu | %4zu %4zu %4zu | %5zu %5zu %5zu | %3.0f%%", r->name, s->connections, mib(s->before.rss_kib),
           mib(s->peak.rss_kib), mib(s->after.rss_kib), s->before.descriptors, s->peak.descriptors,
           s->after.descriptors, s->cpu * 100);
    for (size_t i = 0; i < N_OTHERS; i++) {
        latencies *idle = &s->idle.calls[i], *attacked = &s->attacked.calls[i];
        uint32_t idle_p99 = latencies_at(idle, 0.99);
        printf(" | %u/%u/%u > %u/%u/%u (%.1f)", latencies_at(idle, 0.5), idle_p99, latencies_at(idle, 1),
               latencies_at(attacked, 0.5), latencies_at(attacked, 0.99), latencies_at(attacked, 1),
               (double)latencies_at(attacked, 0.99) / (double)(idle_p99 > 0 ? idle_p99 : 1));
        if (s->attacked.failed[i] > 0) {
            printf(" %zu of %zu failed: %s", s->attacked.failed[i], s->attacked.failed[i] + attacked->n,
                   s->attacked.why[i]);
        }
    }
    if (r->holds)
        printf(" | %zu connections left", s->left);
    printf("\n");
    fflush(stdout);
}

/* ---- a row ---------------------------------------------------------------------------------- */

static void assert_bounds(const row *r, const seen *s)
{
    if (!target_is_alive())
        fail_msg("%s: the server is dead", r->name);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    size_t left = LEFT_KIB;
#else
    size_t left = getenv("LOCKSTOCK_FLOODS_SERVER") ? LEFT_KIB : SIZE_MAX / 2; /* a sanitizer keeps what is freed */
#endif
#if defined(__SANITIZE_THREAD__)
    bool measured = getenv("LOCKSTOCK_FLOODS_SERVER"); /* TSan's shadow makes reserved memory resident */
#else
    bool measured = true;
#endif
    if (measured && s->peak.rss_kib > s->before.rss_kib + BUDGET_KIB + OVERHEAD_KIB)
        fail_msg("%s: resident memory grew from %zu to %zu MiB", r->name, mib(s->before.rss_kib), mib(s->peak.rss_kib));
    if (measured && s->after.rss_kib > s->before.rss_kib + left)
        fail_msg("%s: %zu MiB stay resident of %zu", r->name, mib(s->after.rss_kib), mib(s->peak.rss_kib));
    if (s->after.descriptors > s->before.descriptors + DESCRIPTORS_MORE)
        fail_msg("%s: %zu descriptors stay open", r->name, s->after.descriptors - s->before.descriptors);
    for (size_t i = 0; i < N_OTHERS; i++) {
        if (s->attacked.calls[i].n == 0) {
            fail_msg("%s: others are not served (%s): %s", r->name,
                     i == OTHERS_NEWCOMER ? "newcomers"
                     : i == OTHERS_SAME   ? "on the same wire"
                                          : "on another wire",
                     s->attacked.why[i]);
        }
        if (s->attacked.failed[i] > s->attacked.calls[i].n) {
            fail_msg("%s: more calls of others failed (%zu) than were answered (%zu): %s", r->name,
                     s->attacked.failed[i], s->attacked.calls[i].n, s->attacked.why[i]);
        }
        if (s->attacked.failed[i] > 0 && i != OTHERS_NEWCOMER) {
            fail_msg("%s: %zu calls of others with a connection failed: %s", r->name, s->attacked.failed[i],
                     s->attacked.why[i]);
        }
    }
}

/* A server of the row's own; in the fast form the floods share one for as long as it lives, and places are fewer, so
 * that few connections fill them. */
static bool start_target(bool alone, bool fills_places)
{
    static const char *const few_places[] = {"--connections", "512", NULL};
    static bool shared;
    bool full = counts_of(0, 1);

    if (shared && !alone && target_is_alive())
        return true;
    shared = !alone && !full;
    return target_stop() && target_start(fills_places && !full ? few_places : NULL);
}

static void test_row(void **state)
{
    const row *r = *state;
    seen s = {0};

    if (!start_target(r->holds, r->attack->fills_places))
        fail_msg("the server does not start");
    measure(r, &s);
    print_row(r, &s);
    for (size_t i = 0; i < N_OTHERS; i++) {
        latencies_free(&s.idle.calls[i]);
        latencies_free(&s.attacked.calls[i]);
    }
    assert_bounds(r, &s);
    assert_true(counts_of(0, 1) == 0 || target_stop());
}

static int stop_after(void **state)
{
    if (counts_of(0, 1) == 1)
        target_stop();
    return 0;
}

static int stop_at_last(void **state)
{
    return target_stop() ? 0 : -1;
}

/* ---- the table ------------------------------------------------------------------------------ */

enum { ROWS_MAX = 512 };
static row rows[ROWS_MAX];
static size_t n_rows;

static void add_row(const attack *a, wire w, bool is_hold, unsigned n)
{
    row *r = &rows[n_rows++];

    if (n_rows == ROWS_MAX)
        abort();
    *r = (row){.attack = a, .wire = w, .n = n, .holds = is_hold};
    snprintf(r->name, sizeof r->name, "%s %s x%u", a->name, target_wire_name(w), n);
    test_add_with(r->name, test_row, NULL, stop_after, r);
}

/* The fast form takes of the wires of an attack one after the other. */
static void add_attacks(const attack *list)
{
    bool full = counts_of(0, 1), are_holds = list == holds;

    for (const attack *a = list; a->name; a++) {
        unsigned wires[N_WIRES], n_wires = 0;
        for (unsigned w = 0; w < N_WIRES; w++)
            if ((a->wires & 1U << w) != 0)
                wires[n_wires++] = w;
        if (!full) {
            add_row(a, (wire)wires[n_rows % n_wires], are_holds, are_holds ? 1 : 4);
            continue;
        }
        for (unsigned i = 0; i < n_wires; i++) {
            add_row(a, (wire)wires[i], are_holds, 1);
            if (!are_holds)
                add_row(a, (wire)wires[i], are_holds, ATTACKERS_MAX);
        }
    }
}

int main(void)
{
    struct rlimit files;

    signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max; /* the server's too, which inherits it */
        setrlimit(RLIMIT_NOFILE, &files);
    }
    add_attacks(holds);
    add_attacks(floods);
    print_head();
    int failed = TEST_RUN(.teardown_all = stop_at_last);
    raw_cleanup();
    return failed;
}
