/* Three kinds of ids: for rows, for other systems, for people. */
#include <lockstock/lockstock.h>
#include <stdio.h>

/* Prints ten ids for rows, and when one of them was made. */
static lks_code row_ids(lks_channel *channel, lks_error *error)
{
    lks_next_request request = LKS_NEXT_REQUEST_INIT;
    request.kind = LKS_ID_KIND_SNOWFLAKE;
    request.count = 10;
    lks_next_response *response;
    lks_code code = lks_id_next(channel, &request, NULL, &response, error);
    if (code != LKS_OK)
        return code;
    lks_decode_request decode = LKS_DECODE_REQUEST_INIT;
    decode.id = response->ids[0];
    lks_decode_response *parts;
    code = lks_id_decode(channel, &decode, NULL, &parts, error);
    if (code == LKS_OK) {
        printf("%zu ids, %s, made %s 2024\n", response->n_ids,
               response->ids[0] < response->ids[9] ? "increasing" : "not increasing",
               parts->at_ms >= 1704067200000 ? "since" : "before");
        lks_decode_response_free(parts);
    }
    lks_next_response_free(response);
    return code;
}

static lks_code public_id(lks_channel *channel, lks_error *error)
{
    lks_next_request request = LKS_NEXT_REQUEST_INIT;
    request.kind = LKS_ID_KIND_UUID_V7;
    lks_next_response *response;
    lks_code code = lks_id_next(channel, &request, NULL, &response, error);
    if (code != LKS_OK)
        return code;
    printf("a UUID of version %c\n", response->uuids[0][14]);
    lks_next_response_free(response);
    return LKS_OK;
}

static lks_code ticket_number(lks_channel *channel, lks_error *error)
{
    lks_next_request request = LKS_NEXT_REQUEST_INIT;
    request.kind = LKS_ID_KIND_SEQUENCE;
    request.name = "tickets"; /* unique and increasing; a lost reply leaves a gap */
    lks_next_response *response;
    lks_code code = lks_id_next(channel, &request, NULL, &response, error);
    if (code != LKS_OK)
        return code;
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
        if ((code = row_ids(channel, &error)) == LKS_OK && (code = public_id(channel, &error)) == LKS_OK &&
            (code = ticket_number(channel, &error)) == LKS_OK)
            code = ticket_number(channel, &error);
        lks_channel_close(channel);
    }
    if (code != LKS_OK)
        fprintf(stderr, "%s: %s\n", lks_code_name(code), error.message);
    return code != LKS_OK;
}
