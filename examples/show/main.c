/* show: a flash sale in two shops at once, to be watched and to be disturbed. Exit 0 only when lockstock's is exact. */
#include <errno.h>
#include <getopt.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "client.h"
#include "keys.h"
#include "news.h"
#include "number.h"
#include "patience.h"
#include "sale.h"
#include "screen.h"
#include "shops.h"
#include "stage.h"
#include "table.h"
#include "terminal.h"
#include "waits.h"

enum { TICK_MS = 100, LINE_MS = 1000, SETUP_MS = 60000, PATH_BYTES = 4096 };

static const char usage[] =
    "usage: show [--buyers N] [--phones N] [--seconds S] [--naive setnx|getset|decr] [--press LIST] [--lines]\n"
    "            [--lockstockd PATH]\n"
    "  --buyers N      of each shop (1200)\n"
    "  --phones N      that each shop has (1000)\n"
    "  --seconds S     over which the buyers come (15)\n"
    "  --naive FORM    how the shop by hand sells: under a lock by SETNX and EXPIRE, or by GETSET; or by GET,\n"
    "                  then DECR, without one (setnx)\n"
    "  --press LIST    keys that are pressed by themselves: 30:s,50:r is s when 30 % of the buyers have their\n"
    "                  answer, r when 50 % have\n"
    "  --lines         a line a second, as when standard output is no terminal\n"
    "  --lockstockd P  the server's path\n"
    "keys: s kills (-9) a server, r Redis, c a client; f freezes the holders of the locks; q quits\n";

typedef struct show {
    size_t buyers, phones, seconds;
    naive_form form;
    script script;
    bool lines;
    char lockstockd[PATH_BYTES + 32], self[PATH_BYTES];

    crowd *crowd;
    int crowd_fd;
    news said;
    stage *stage;
    lks_channel *channel;
    flash_sale sale;
    waits *waits[SIDES];
    int signals;
    int ended_by; /* a signal; 0 = none */
    bool quits;
    bool live;
    bool utf8;
    bool input_ended;
    int64_t next_line_ms;
} show;

/* ---- settings -------------------------------------------------------------------- */

static bool parse_form(const char *name, naive_form *ret)
{
    for (int i = 0; i < NAIVE_FORMS; i++) {
        if (strcmp(name, naive_names[i]) == 0) {
            *ret = (naive_form)i;
            return true;
        }
    }
    return false;
}

static bool parse(int argc, char **argv, show *s)
{
    static const struct option flags[] = {
        {"buyers", required_argument, NULL, 'b'},
        {"phones", required_argument, NULL, 'p'},
        {"seconds", required_argument, NULL, 's'},
        {"naive", required_argument, NULL, 'n'},
        {"press", required_argument, NULL, 'k'},
        {"lines", no_argument, NULL, 'l'},
        {"lockstockd", required_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    bool good = true;

    for (int flag; good && (flag = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        switch (flag) {
        case 'b':
            good = (s->buyers = (size_t)number_parse(optarg, 100000)) != 0;
            break;
        case 'p':
            good = (s->phones = (size_t)number_parse(optarg, 1000000)) != 0;
            break;
        case 's':
            good = (s->seconds = (size_t)number_parse(optarg, 3600)) != 0;
            break;
        case 'n':
            good = parse_form(optarg, &s->form);
            break;
        case 'k':
            good = script_parse(optarg, &s->script);
            break;
        case 'l':
            s->lines = true;
            break;
        case 'd':
            snprintf(s->lockstockd, sizeof s->lockstockd, "%s", optarg);
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            good = false;
        }
    }
    return good && optind == argc;
}

/* This program's path, and where the build puts the server beside it. */
static bool find_programs(show *s)
{
    ssize_t n = readlink("/proc/self/exe", s->self, sizeof s->self - 1);

    if (n <= 0)
        return false;
    s->self[n] = '\0';
    snprintf(s->lockstockd, sizeof s->lockstockd, "%.*s/../../server/lockstockd",
             (int)(strrchr(s->self, '/') - s->self), s->self);
    return true;
}

/* The servers' settings are the show's own. */
static void forget_settings(void)
{
    extern char **environ;

    for (size_t i = 0; environ[i];) {
        char name[64];
        size_t n = strcspn(environ[i], "=");
        if (strncmp(environ[i], "LOCKSTOCK_", 10) == 0 && n < sizeof name) {
            snprintf(name, sizeof name, "%.*s", (int)n, environ[i]);
            unsetenv(name); /* the next one takes its place */
        } else {
            i++;
        }
    }
}

/* ---- the sale -------------------------------------------------------------------- */

static lks_code set_up(show *s, lks_error *error)
{
    const lks_channel_options options = {.timeout_ms = SETUP_MS / 2};
    const sale_plan plan = {.n_goods = 1, .stock = (int64_t)s->phones, .n_buyers = s->buyers, .patience_ms = SETUP_MS};
    lks_code code = crowd_new(s->buyers, &s->crowd_fd, &s->crowd, error);
    crowd *c = s->crowd;
    char urls[sizeof c->urls + 2];

    if (code != LKS_OK)
        return code;
    c->stock = (int64_t)s->phones;
    c->run_ms = (int64_t)s->seconds * 1000;
    c->form = s->form;
    for (int k = 0; k < SIDES; k++)
        if (!(s->waits[k] = waits_new(c, (shop_side)k)))
            return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    code = stage_open(s->lockstockd, s->self, c, s->crowd_fd, &s->said, &s->stage, error);
    if (code != LKS_OK)
        return code;
    snprintf(urls, sizeof urls, "%s,%s", c->urls[0], c->urls[1]);
    if ((code = lks_channel_open(urls, &options, &s->channel, error)) != LKS_OK ||
        (code = sale_open(s->channel, &plan, &s->sale, error)) != LKS_OK)
        return code;
    snprintf(c->run, sizeof c->run, "%s", s->sale.run);
    snprintf(c->group, sizeof c->group, "%s", s->sale.group);
    snprintf(c->sku, sizeof c->sku, "%s", s->sale.skus[0]);
    return stage_let_in(s->stage, error);
}

static void look(show *s, picture *p)
{
    int64_t now_ms = clock_ms();

    *p = (picture){.crowd = s->crowd, .said = &s->said, .help = keys_help, .utf8 = s->utf8};
    for (int k = 0; k < SIDES; k++) {
        waits_look(s->waits[k], now_ms);
        p->waits[k] = s->waits[k];
        p->totals[k] = crowd_totals(s->crowd, (shop_side)k);
    }
}

static void tell(show *s, const picture *p, bool last)
{
    int64_t now_ms = clock_ms(), opened_ms = atomic_load(&s->crowd->opens_ms);

    if (s->live) {
        size_t behind = s->said.n - s->said.told; /* each line is on one screen at least, however many come at once */
        s->said.told += behind < SCREEN_NEWS ? behind : SCREEN_NEWS;
        screen_draw(p);
        return;
    }
    for (; s->said.told < s->said.n; s->said.told++)
        if (news_at(&s->said, s->said.told))
            printf("         %s\n", news_at(&s->said, s->said.told));
    if (now_ms >= s->next_line_ms || last) {
        screen_line(p, opened_ms != 0 ? (double)(now_ms - opened_ms) / 1000 : 0);
        s->next_line_ms = now_ms + LINE_MS;
    }
}

static void take_signal(show *s)
{
    struct signalfd_siginfo info;

    if (read(s->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP)
        s->ended_by = (int)info.ssi_signo;
}

static void take_key(show *s, char key)
{
    if (key == KEY_QUIT)
        s->quits = true;
    else
        keys_press(s->stage, key);
}

static void take_keys(show *s)
{
    char pressed[16];
    ssize_t n = read(STDIN_FILENO, pressed, sizeof pressed);

    s->input_ended = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
    for (ssize_t i = 0; i < n; i++)
        take_key(s, pressed[i]);
}

static void wait_for_something(show *s)
{
    struct pollfd events[] = {{.fd = s->signals, .events = POLLIN},
                              {.fd = terminal_has_keys() && !s->input_ended ? STDIN_FILENO : -1, .events = POLLIN}};

    if (poll(events, 2, TICK_MS) <= 0)
        return;
    if (events[0].revents != 0)
        take_signal(s);
    if (events[1].revents != 0)
        take_keys(s);
}

static lks_code play(show *s, lks_error *error)
{
    picture p;
    lks_code code;
    char key;

    while ((code = stage_tick(s->stage, error)) == LKS_OK && !s->quits && s->ended_by == 0 &&
           !stage_is_over(s->stage)) {
        look(s, &p);
        tell(s, &p, false);
        const totals *t = &p.totals[EXACT];
        while ((key = script_next(&s->script, (unsigned)((t->bought + t->sold_out) * 100 / s->buyers))) != '\0')
            take_key(s, key);
        wait_for_something(s);
    }
    look(s, &p);
    tell(s, &p, true);
    return code;
}

/* ---- the frame ------------------------------------------------------------------- */

/* Signals are read from a descriptor; threads that are started later inherit that none interrupts them. */
static bool gather_signals(show *s)
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGWINCH};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        sigaddset(&set, taken[i]);
    signal(SIGPIPE, SIG_IGN);
    return sigprocmask(SIG_BLOCK, &set, NULL) == 0 && (s->signals = signalfd(-1, &set, SFD_CLOEXEC)) >= 0;
}

static int run(show *s, lks_error *error)
{
    bool exact = false;
    lks_code code = set_up(s, error);

    if (code == LKS_OK) {
        if (s->live)
            terminal_enter();
        code = play(s, error);
        terminal_leave();
    }
    if (code == LKS_OK && s->ended_by == 0) {
        if (s->quits)
            puts("\nStopped by q. Who was waiting is still told by lockstock, and what was sold so far is checked.");
        stage_end_clients(s->stage);
        code = stage_revive_servers(s->stage, error);
        exact = code == LKS_OK && table_print(s->crowd, &s->sale, s->channel, s->live);
    }
    return code != LKS_OK || (s->ended_by == 0 && !exact) ? 1 : s->ended_by != 0 ? 128 + s->ended_by : 0;
}

int main(int argc, char **argv)
{
    static show s = {.buyers = 1200, .phones = 1000, .seconds = 15, .crowd_fd = -1};
    lks_error error = {0};

    if (argc > 1 && strcmp(argv[1], CLIENT_FLAG) == 0)
        return client_main(argc, argv);
    if (!find_programs(&s) || !parse(argc, argv, &s)) {
        fputs(usage, stderr);
        return 2;
    }
    setlocale(LC_CTYPE, "");
    s.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    s.live = !s.lines && terminal_is_live();
    forget_settings();
    if (!gather_signals(&s)) {
        perror("show");
        return 1;
    }
    int status = run(&s, &error);
    terminal_leave();
    if (status == 1 && error.code != LKS_OK)
        fprintf(stderr, "show: %s: %s\n", lks_code_name(error.code), error.message);
    sale_close(&s.sale);
    lks_channel_close(s.channel);
    if (!stage_close(s.stage, stderr)) {
        fprintf(stderr, "show: a server did not end as it should\n");
        status = 1;
    }
    for (int k = 0; k < SIDES; k++)
        waits_free(s.waits[k]);
    return status;
}
