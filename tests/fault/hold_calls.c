/* hold_calls URL: a client that always has 8 calls in flight, until it is killed.
 * Says "holding" when each of the 8 was answered once and sent again. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <lockstock/v1/stock.lks_client.h>

enum { IN_FLIGHT = 8 };

static lks_channel *channel;
static atomic_uint answered;

static void call(void);

static void on_answer(void *arg, lks_code code, const lks_batch_get_items_response *response, const lks_error *error)
{
    (void)arg;
    (void)response;
    if (code != LKS_OK) {
        fprintf(stderr, "hold_calls: %s\n", error->message);
        exit(1);
    }
    call();
    if (atomic_fetch_add(&answered, 1) + 1 == IN_FLIGHT) {
        puts("holding");
        fflush(stdout);
    }
}

static void call(void)
{
    lks_batch_get_items_request request = LKS_BATCH_GET_ITEMS_REQUEST_INIT;
    const lks_call_options options = {.timeout_ms = 60000};
    const char *skus[] = {"pear", "plum"};

    request.n_skus = 2;
    request.skus = skus;
    if (lks_stock_batch_get_items_start(channel, &request, &options, on_answer, NULL, NULL, NULL) != LKS_OK)
        exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 2 || lks_channel_open(argv[1], NULL, &channel, NULL) != LKS_OK)
        return 2;
    for (int i = 0; i < IN_FLIGHT; i++)
        call();
    for (;;)
        pause();
}
