#include <lockstock/lockstock.h>
#include <stdio.h>

#include "hello.lks_client.h"

int main(int argc, char **argv)
{
    hello_v1_greet_request request = HELLO_V1_GREET_REQUEST_INIT;
    hello_v1_greet_response *response = NULL;
    lks_channel *channel = NULL;
    lks_error error = {0};

    request.name = "world";
    if (lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7800", NULL, &channel, &error) == LKS_OK &&
        hello_v1_hello_greet(channel, &request, NULL, &response, &error) == LKS_OK)
        printf("%s\n", response->text);
    else
        fprintf(stderr, "%s: %s\n", lks_code_name(error.code), error.message);
    hello_v1_greet_response_free(response);
    lks_channel_close(channel);
    return error.code != LKS_OK;
}
