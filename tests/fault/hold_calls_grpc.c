/* hold_calls_grpc URL: what hold_calls is, by gRPC. */
#include <stdio.h>
#include <stdlib.h>

#include "conformance/caller.h"

enum { IN_FLIGHT = 8 };

static const call_spec get_pear = {
    .method = "/lockstock.v1.StockService/BatchGetItems", .payload = "\x12\x04pear", .len = 6, .timeout_ms = 60000};

int main(int argc, char **argv)
{
    void *caller = argc == 2 ? grpc_driver.open(argv[1], NULL) : NULL;
    outcome got;

    if (!caller)
        return 2;
    for (unsigned answered = 0; answered < IN_FLIGHT; answered++)
        if (grpc_driver.start(caller, &get_pear) == 0)
            return 1;
    for (unsigned answered = 1; grpc_driver.await(caller, &got); answered++) {
        if (got.code != LKS_OK || grpc_driver.start(caller, &get_pear) == 0) {
            fprintf(stderr, "hold_calls_grpc: %s\n", got.message);
            return 1;
        }
        free(got.payload);
        if (answered == IN_FLIGHT) {
            puts("holding");
            fflush(stdout);
        }
    }
    return 1;
}
