/* lockstock metrics: prints the metrics of each server as a table, as JSON or as Prometheus text. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <lockstock/v1/admin.lks_client.h>

#include "answer.h"
#include "commands.h"
#include "options.h"
#include "probe.h"

enum { BUCKETS_MAX = 32 };

typedef struct metrics_flags {
    bool raw, all;
} metrics_flags;

static const option options[] = {
    {"raw", OPTION_BOOL, offsetof(metrics_flags, raw), NULL, "print the text that Prometheus reads"},
    {"all", OPTION_BOOL, offsetof(metrics_flags, all), NULL, "also print values of 0"},
};
const command_flags flags_of_metrics = COMMAND_FLAGS(options, metrics_flags);

/* A line "name{labels} value". */
typedef struct sample {
    const char *name, *labels, *value; /* value ends with the line */
    int name_len, labels_len;
} sample;

/* Returns false for a comment. */
static bool read_sample(const char *line, sample *s)
{
    *s = (sample){.name = line, .name_len = (int)strcspn(line, "{ "), .labels = ""};
    const char *rest = line + s->name_len;
    if (line[0] == '#')
        return false;
    if (*rest == '{') {
        s->labels = rest + 1;
        s->labels_len = (int)strcspn(s->labels, "}");
        rest = s->labels + s->labels_len + 1;
    }
    s->value = rest + strspn(rest, " ");
    return true;
}

static bool ends(const sample *s, const char *suffix)
{
    int len = (int)strlen(suffix);

    return s->name_len > len && memcmp(s->name + s->name_len - len, suffix, (size_t)len) == 0;
}

/* ---- the table ---------------------------------------------------------------------------------- */

/* The samples of a histogram: buckets in ascending order, then the sum, then the count. */
typedef struct durations {
    double bound[BUCKETS_MAX], count[BUCKETS_MAX], sum;
    int n;
} durations;

typedef struct table {
    const char *heading; /* the heading to print before the next row; NULL: none */
    bool all;
    durations durations;
} table;

/* Estimates a quantile as Prometheus does: values are spread evenly within a bucket. */
static double quantile(const durations *d, double q)
{
    double wanted = d->n > 0 ? q * d->count[d->n - 1] : 0, before = 0, from = 0;

    for (int i = 0; i + 1 < d->n; i++) {
        if (d->count[i] >= wanted && d->count[i] > before)
            return from + (d->bound[i] - from) * (wanted - before) / (d->count[i] - before);
        before = d->count[i];
        from = d->bound[i];
    }
    return from;
}

/* Prints the labels without quotes, and without the type, which is the same for all methods. */
static void begin_row(table *t, const sample *s)
{
    static const char type[] = "grpc_type=\"unary\",";
    int at = strncmp(s->labels, type, sizeof type - 1) == 0 ? (int)sizeof type - 1 : 0;

    if (t->heading)
        printf("%s\n", t->heading);
    t->heading = NULL;
    printf(" ");
    for (; at < s->labels_len; at++)
        if (s->labels[at] != '"')
            putchar(s->labels[at] == ',' ? ' ' : s->labels[at]);
    printf("%s", s->labels_len > 0 ? ": " : " ");
}

static void print_durations(const durations *d, double count)
{
    const struct {
        const char *name;
        double seconds;
    } rows[] = {{"mean", d->sum / count}, {"p50", quantile(d, 0.5)}, {"p99", quantile(d, 0.99)}};

    printf("%.0f", count);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        printf(", %s %.3g ms", rows[i].name, rows[i].seconds * 1e3);
    printf("\n");
}

static void take(table *t, const sample *s)
{
    durations *d = &t->durations;
    double value = strtod(s->value, NULL);

    if (ends(s, "_bucket")) {
        const char *bound = strstr(s->labels, "le=\"");
        if (bound && d->n < BUCKETS_MAX) {
            d->bound[d->n] = strtod(bound + strlen("le=\""), NULL);
            d->count[d->n++] = value;
        }
    } else if (d->n > 0 && ends(s, "_sum")) {
        d->sum = value;
    } else if (value == 0 && !t->all) {
        d->n = 0;
    } else {
        begin_row(t, s);
        if (d->n > 0 && value > 0)
            print_durations(d, value);
        else
            printf("%s\n", s->value);
        d->n = 0;
    }
}

static void print_table(char *text, bool all)
{
    static const char help[] = "# HELP ";
    table t = {.all = all};
    sample s;

    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (strncmp(line, help, sizeof help - 1) == 0)
            t.heading = line + sizeof help - 1;
        else if (read_sample(line, &s))
            take(&t, &s);
}

/* A line for each sample. */
static exit_code print_json(const char *url, char *text)
{
    exit_code code = EXIT_DONE;
    sample s;

    for (char *line = strtok(text, "\n"); line && code == EXIT_DONE; line = strtok(NULL, "\n")) {
        if (!read_sample(line, &s))
            continue;
        code =
            answer_print_line(json_pack("{s:s, s:s%, s:s%, s:f}", "server", url, "metric", s.name, (size_t)s.name_len,
                                        "labels", s.labels, (size_t)s.labels_len, "value", strtod(s.value, NULL)),
                              0);
    }
    return code;
}

/* ---- the command ----------------------------------------------------------------------------------- */

typedef struct asking {
    const cli *cli;
    const metrics_flags *flags;
} asking;

static exit_code ask(void *arg, const char *url, lks_channel **channel)
{
    const lks_get_metrics_request request = LKS_GET_METRICS_REQUEST_INIT;
    lks_get_metrics_response *response = NULL;
    const asking *a = arg;
    lks_error error;

    if (lks_admin_get_metrics(*channel, &request, NULL, &response, &error) != LKS_OK)
        return exits_failed(&error, true);
    char *text = lks_rpc_arena_copy(a->cli->arena, response->text.data, response->text.len);
    lks_get_metrics_response_free(response);
    if (!text)
        return exits_wrong("--server", "out of memory");
    exit_code code = EXIT_DONE;
    if (a->flags->raw)
        fputs(text, stdout);
    else if (a->cli->json)
        code = print_json(url, text);
    else
        print_table(text, a->flags->all);
    return code;
}

exit_code metrics_command(cli *c, const invocation *in)
{
    asking a = {.cli = c, .flags = in->flags};

    return probe_servers(c, ask, &a);
}
