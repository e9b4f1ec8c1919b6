/* A process that is killed or frozen while it uses the helpers of the client:
 *
 *     helper once URL KEY LEASE_MS NAME GATE     runs until the file GATE exists
 *     helper reserve URL ORDER HOLD_MS           keeps a reservation until it is killed
 *
 * It prints each of its actions on a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstock/lockstock.h>

#include "support/process.h"

enum { WAIT_MS = 120000 };

struct job {
    const char *name, *gate;
};

static lks_once_verdict run_until_gate(void *arg, lks_once_attempt *attempt)
{
    const struct job *job = arg;

    printf("running attempt=%lld\n", (long long)lks_once_number(attempt));
    while (access(job->gate, F_OK) != 0)
        process_pause(); /* the gate is a file, for a process that is stopped and killed */
    printf("through lost=%d\n", lks_once_is_lost(attempt));
    lks_once_return(attempt, 200, job->name, strlen(job->name));
    return LKS_ONCE_STORE;
}

static int once(lks_channel *channel, char **argv)
{
    struct job job = {.name = argv[5], .gate = argv[6]};
    const lks_once_options options = {
        .scope = "pay", .key = argv[3], .lease_ms = (uint32_t)atoi(argv[4]), .wait_ms = WAIT_MS};
    lks_once_result *result;
    lks_error error;

    printf("asking\n");
    lks_once_outcome outcome = lks_once_run(channel, &options, run_until_gate, &job, &result, &error);
    printf("ended outcome=%d body=%s replayed=%d error=%s\n", (int)outcome, result ? (const char *)result->body : "-",
           result && result->replayed, error.message);
    lks_once_result_free(result);
    return 0;
}

static int reserve(lks_channel *channel, char **argv)
{
    const lks_reservation_line line = {.sku = "seat", .quantity = 1};
    const lks_reservation_order order = {
        .order_id = argv[3], .lines = &line, .n_lines = 1, .hold_ms = (uint32_t)atoi(argv[4]), .keep_ms = 600000};
    lks_reservation *reservation = NULL;
    lks_error error;

    if (lks_reservation_make(channel, &order, &reservation, &error) != LKS_RESERVE_OUTCOME_RESERVED) {
        printf("failed %s\n", error.message);
        return 1;
    }
    printf("reserved\n");
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    lks_channel *channel = NULL;
    lks_error error;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 5 || lks_channel_open(argv[2], NULL, &channel, &error) != LKS_OK)
        return 2;
    int status = strcmp(argv[1], "once") == 0 && argc == 7 ? once(channel, argv)
                 : strcmp(argv[1], "reserve") == 0         ? reserve(channel, argv)
                                                           : 2;
    lks_channel_close(channel);
    return status;
}
