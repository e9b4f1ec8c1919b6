#include <stdio.h>

#include "greet.lks_client.h"

int main(void)
{
    const lks_call_options options = {.timeout_ms = 100};
    greet_v1_greet_request request = GREET_V1_GREET_REQUEST_INIT;
    greet_v1_greet_response *response = NULL;
    lks_channel *channel = NULL;
    lks_error error;

    /* Nothing listens there: a stub of the project's own .proto returns the error. */
    if (lks_channel_open("unix:///nowhere", NULL, &channel, &error) != LKS_OK)
        return 1;
    request.name = "you";
    lks_code code = greet_v1_greeter_greet(channel, &request, &options, &response, &error);
    printf("%s: %s\n", lks_code_name(code), error.message);
    lks_channel_close(channel);
    return code == LKS_UNAVAILABLE ? 0 : 1;
}
