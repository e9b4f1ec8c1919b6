/* lockstock status: prints for each server whether it and its store answer, and the reason if not. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>
#include <lockstock/v1/admin.lks_client.h>

#include "answer.h"
#include "commands.h"
#include "probe.h"
#include "words.h"

enum { WHY_BYTES = 1024 };

/* blocked: the server reports a condition that blocks calls. */
static void print_probe(const probe *p, bool blocked)
{
    char text[WORDS_BYTES + 4] = "up, ";
    bool is_up = p->error.code == LKS_OK;

    probe_write(p, is_up ? text + strlen(text) : text);
    printf("  %-18s", is_up && blocked ? "not ready" : text);
}

/* why NULL: nothing is wrong. */
static exit_code print_json(const char *url, bool is_up, bool has_store, const char *why, lks_reason reason)
{
    json_t *json = json_pack("{s:s, s:b, s:b, s:s*, s:s*}", "server", url, "up", is_up, "store", has_store, "why", why,
                             "reason", reason != LKS_REASON_NONE ? lks_reason_name(reason) : NULL);

    return answer_print_line(json, 0);
}

/* The conditions that a server reports, and whether one blocks its store or the server. Empty if the call fails. */
typedef struct conditions {
    bool server, store;
    lks_reason reason; /* of the store */
    char why[WHY_BYTES];
} conditions;

static void ask_conditions(lks_channel *channel, conditions *found)
{
    const lks_get_status_request asking = LKS_GET_STATUS_REQUEST_INIT;
    lks_get_status_response *status = NULL;
    lks_error error;
    size_t at = 0;

    *found = (conditions){.why = ""};
    if (lks_admin_get_status(channel, &asking, NULL, &status, &error) != LKS_OK)
        return;
    for (size_t i = 0; i < status->n_conditions; i++) {
        const lks_condition *one = status->conditions[i];
        bool of_store = strcmp(one->about, "store") == 0;
        found->store = found->store || (one->blocks && of_store);
        found->server = found->server || (one->blocks && !of_store);
        if (at < sizeof found->why)
            at += (size_t)snprintf(found->why + at, sizeof found->why - at, "%s%s", at > 0 ? "; " : "", one->text);
    }
    if (status->store)
        found->reason = lks_reason_of(status->store->reason_word);
    lks_get_status_response_free(status);
}

typedef struct asking {
    const cli *cli;
    int width;   /* of the column of URLs */
    bool headed; /* the head of the table is printed */
} asking;

static exit_code ask(void *arg, const char *url, lks_channel **channel)
{
    asking *a = arg;
    probe server = probe_server(*channel), store = server;
    exit_code code = EXIT_DONE;
    conditions found = {.why = ""};

    if (!probe_is_down(&server)) {
        ask_conditions(*channel, &found);
        store = probe_store(*channel);
    }
    const lks_error *error = server.error.code != LKS_OK ? &server.error : &store.error;
    bool is_up = !probe_is_down(&server) && !found.server, has_store = !probe_is_down(&store) && !found.store;
    char why[WHY_BYTES] = "";
    /* Conditions of the server explain more than the error of a call. */
    bool by_server = error->code == LKS_OK || found.server || found.store;
    words_printable(by_server ? found.why : error->message, why, sizeof why);
    if (a->cli->json) {
        code =
            print_json(url, is_up, has_store, *why ? why : NULL, error->code != LKS_OK ? error->reason : found.reason);
    } else {
        if (!a->headed)
            printf("%-*s  %-18s  %s\n", a->width, "SERVER", "STATE", "STORE");
        a->headed = true;
        printf("%-*s", a->width, url);
        print_probe(&server, found.server);
        print_probe(&store, found.store);
        printf("%s%s\n", *why ? "  " : "", why);
    }
    if (code != EXIT_DONE)
        return code;
    if (!is_up || !has_store)
        return EXIT_UNAVAILABLE;
    return server.error.code != LKS_OK || store.error.code != LKS_OK ? EXIT_OTHER : EXIT_DONE;
}

exit_code status_command(cli *c, const invocation *in)
{
    asking a = {.cli = c, .width = (int)strlen("SERVER")};

    (void)in;
    for (const char *url = c->server; *url; url += strcspn(url, ",") + (url[strcspn(url, ",")] != '\0'))
        if ((int)strcspn(url, ",") > a.width)
            a.width = (int)strcspn(url, ",");
    return probe_servers(c, ask, &a);
}
