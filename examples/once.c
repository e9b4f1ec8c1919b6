/* One payment, however often the button is pressed: the first click pays, the second gets the same receipt.
 *
 *     once [URL] */
#include <lockstock/lockstock.h>
#include <stdio.h>
#include <string.h>

/* This must not happen twice. */
static lks_once_verdict charge(void *arg, lks_once_attempt *attempt)
{
    const char *card = arg;
    char receipt[64];

    if (*card == '\0') {
        lks_once_set_detail(attempt, "no card"); /* permanent: every repeat gets this answer */
        return LKS_ONCE_GIVE_UP;
    }
    printf("charging %s\n", card);
    if (lks_once_is_lost(attempt)) /* too slow: another attempt may have started */
        return LKS_ONCE_RETRY;
    snprintf(receipt, sizeof receipt, "paid with %s", card);
    lks_once_return(attempt, 200, receipt, strlen(receipt));
    return LKS_ONCE_STORE;
}

static int click(lks_channel *channel, const char *order_id, char *card)
{
    /* The fingerprint identifies the request: the same key for another card is an error. */
    const lks_once_options options = {
        .scope = "charge", .key = order_id, .fingerprint = card, .fingerprint_len = strlen(card), .wait_ms = 2000};
    lks_once_result *result;
    lks_error error;
    lks_once_outcome outcome = lks_once_run(channel, &options, charge, card, &result, &error);

    if (outcome == LKS_ONCE_EXECUTED || outcome == LKS_ONCE_REPLAYED)
        printf("%s: %s%s\n", order_id, result->failure ? result->failure : (const char *)result->body,
               result->replayed ? ", before" : "");
    else if (outcome == LKS_ONCE_MISMATCH)
        printf("%s: not with another card\n", order_id);
    else
        fprintf(stderr, "%s: %s\n", lks_code_name(error.code), error.message);
    lks_once_result_free(result);
    return outcome == LKS_ONCE_EXECUTED || outcome == LKS_ONCE_REPLAYED || outcome == LKS_ONCE_MISMATCH ? 0 : 1;
}

int main(int argc, char **argv)
{
    char card[] = "card 1234", other[] = "card 9999", none[] = "";
    lks_channel *channel;
    lks_error error;

    if (lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, &error) != LKS_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    int status = click(channel, "order-1", card);
    status |= click(channel, "order-1", card);
    status |= click(channel, "order-1", other);
    status |= click(channel, "order-2", none);
    status |= click(channel, "order-2", none);
    lks_channel_close(channel);
    return status;
}
