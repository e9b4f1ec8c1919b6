/* Every word checks one thing; on a difference both sides are printed. */
#include "services/words.h"

harness *h;
lks_error err;

static char *remembered;

int start_harness(void **state)
{
    h = harness_new();
    return h ? 0 : -1;
}

int stop_harness(void **state)
{
    free(remembered);
    harness_free(h);
    return 0;
}

void expect_error(lks_code code, const char *field)
{
    if (err.code != code || err.applied != LKS_APPLIED_NO)
        fail_msg("%s NO expected, got %s %s: %s", lks_code_name(code), lks_code_name(err.code),
                 lks_applied_name(err.applied), err.message);
    if (strncmp(err.message, field, strlen(field)) != 0 || err.message[strlen(field)] != ':')
        fail_msg("a text that begins with %s: expected, got: %s", field, err.message);
}

void remember(void)
{
    free(remembered);
    remembered = strdup(harness_snapshot(h));
}

void expect_unchanged(void)
{
    assert_string_equal(remembered, harness_snapshot(h));
}
