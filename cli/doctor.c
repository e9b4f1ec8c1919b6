/* lockstock doctor: calls each server and prints the findings of diagnosis.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <lockstock/v1/admin.lks_client.h>
#include <lockstock/version.h>

#include "answer.h"
#include "base/clock.h"
#include "commands.h"
#include "diagnosis.h"

enum { SAMPLES = 5 };

static int by_time(const void *a, const void *b)
{
    const probe *left = a, *right = b;

    return (left->took_ns > right->took_ns) - (left->took_ns < right->took_ns);
}

/* Returns the first call that failed, or the median. */
static probe median(probe (*ask)(lks_channel *channel), lks_channel *channel)
{
    probe all[SAMPLES], first = ask(channel); /* includes connecting, so it is not measured */

    if (first.error.code != LKS_OK)
        return first;
    for (size_t i = 0; i < SAMPLES; i++) {
        all[i] = ask(channel);
        if (all[i].error.code != LKS_OK)
            return all[i];
    }
    qsort(all, SAMPLES, sizeof *all, by_time);
    return all[SAMPLES / 2];
}

/* Fills in the status and the clocks. */
static void ask_status(lks_channel *channel, diagnosis_facts *facts, lks_get_status_response **ret)
{
    const lks_get_status_request asking = LKS_GET_STATUS_REQUEST_INIT;
    int64_t began_ms = clock_unix_ms();

    lks_admin_get_status(channel, &asking, NULL, ret, &facts->status_error);
    facts->status = *ret;
    facts->within_ms = (clock_unix_ms() - began_ms + 1) / 2;
    facts->here_ms = began_ms + facts->within_ms;
}

/* ---- answers ----------------------------------------------------------------------- */

static void print_finding(const diagnosis_finding *one)
{
    printf("  %-8s %-12s %s\n", diagnosis_word(one->level), one->about, one->text);
    if (one->remedy)
        printf("  %-8s %-12s -> %s\n", "", "", one->remedy);
}

static exit_code print_json(const char *url, const diagnosis_finding *one)
{
    return answer_print_line(json_pack("{s:s, s:s, s:s, s:s, s:s}", "server", url, "level", diagnosis_word(one->level),
                                       "about", one->about, "text", one->text, "remedy",
                                       one->remedy ? one->remedy : ""),
                             0);
}

typedef struct visit {
    const cli *cli;
    size_t n; /* servers so far */
} visit;

static exit_code examine(void *arg, const char *url, lks_channel **channel)
{
    static const exit_code codes[] = {
        [DIAGNOSIS_WARNING] = EXIT_REFUSED, [DIAGNOSIS_PROBLEM] = EXIT_REFUSED, [DIAGNOSIS_DOWN] = EXIT_UNAVAILABLE};
    diagnosis_facts facts = {.version = LOCKSTOCK_VERSION};
    lks_get_status_response *status = NULL;
    diagnosis_level worst = DIAGNOSIS_OK;
    visit *v = arg;
    size_t n;

    facts.server = median(probe_server, *channel);
    if (!probe_is_down(&facts.server)) {
        ask_status(*channel, &facts, &status);
        facts.store = median(probe_store, *channel);
    }
    diagnosis_finding *findings = diagnosis_of(&facts, &n);
    exit_code code = findings ? EXIT_DONE : EXIT_OTHER;
    if (!v->cli->json)
        printf("%s%s\n", v->n++ > 0 ? "\n" : "", url);
    lks_get_status_response_free(status);
    for (size_t i = 0; code == EXIT_DONE && i < n; i++) {
        worst = findings[i].level > worst ? findings[i].level : worst;
        if (!v->cli->json)
            print_finding(&findings[i]);
        else
            code = print_json(url, &findings[i]);
    }
    free(findings);
    return code == EXIT_DONE ? codes[worst] : code;
}

exit_code doctor_command(cli *c, const invocation *in)
{
    visit v = {.cli = c};

    (void)in;
    return probe_servers(c, examine, &v);
}
