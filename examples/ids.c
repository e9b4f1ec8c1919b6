/* Three kinds of ids: for rows, for other systems, for people. */
#include <lockstock/lockstock.h>
#include <stdio.h>

static lks_code next(lks_channel *channel, lks_id_kind kind, int count, lks_error *error)
{
    lks_next_request request = LKS_NEXT_REQUEST_INIT;
    request.kind = kind;
    request.count = count;
    if (kind == LKS_ID_KIND_SEQUENCE)
        request.name = "tickets"; /* unique and increasing; a lost reply leaves a gap */
    lks_next_response *response;
    lks_code code = lks_id_next(channel, &request, NULL, &response, error);
    if (code != LKS_OK)
        return code;
    if (kind == LKS_ID_KIND_SNOWFLAKE)
        printf("%zu ids, %s\n", response->n_ids, response->ids[0] < response->ids[9] ? "increasing" : "not increasing");
    else if (kind == LKS_ID_KIND_UUID_V7)
        printf("a UUID of version %c\n", response->uuids[0][14]);
    else
        printf("ticket %lld\n", (long long)response->ids[0]);
    lks_next_response_free(response);
    return LKS_OK;
}

int main(int argc, char **argv)
{
    lks_channel *channel;
    lks_error error;
    lks_code code = lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, &error);
    if (code == LKS_OK) {
        if ((code = next(channel, LKS_ID_KIND_SNOWFLAKE, 10, &error)) == LKS_OK &&
            (code = next(channel, LKS_ID_KIND_UUID_V7, 1, &error)) == LKS_OK)
            code = next(channel, LKS_ID_KIND_SEQUENCE, 1, &error);
        lks_channel_close(channel);
    }
    if (code != LKS_OK)
        fprintf(stderr, "%s: %s\n", lks_code_name(code), error.message);
    return code != LKS_OK;
}
