#include "certificates.h"

#include <stdio.h>
#include <time.h>

enum { WARN_DAYS = 14, DAY_S = 86400 };

/* Whether the certificate ends within WARN_DAYS or has ended. ends_s is 0 if there is no certificate. */
static bool is_ending(int64_t ends_s)
{
    return ends_s != 0 && time(NULL) >= (time_t)ends_s - WARN_DAYS * DAY_S;
}

static bool is_over(int64_t ends_s)
{
    return time(NULL) >= (time_t)ends_s;
}

static void write_text(const char *setting, int64_t ends_s, char text[CONDITION_TEXT_BYTES])
{
    char end[32];
    const time_t at = (time_t)ends_s;
    struct tm utc;

    strftime(end, sizeof end, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &utc));
    snprintf(text, CONDITION_TEXT_BYTES, "the certificate of %s %s at %s%s", setting,
             is_over(ends_s) ? "ended" : "ends", end,
             is_over(ends_s) ? ": peers that check it refuse the connection" : "");
}

static bool all_encrypted(const settings *config)
{
    for (size_t i = 0; i < config->listen.n; i++)
        if (!wires_is_encrypted(config->listen.of[i]))
            return false;
    return true;
}

bool certificates_look(const settings *config, const wires *w, const store *st, char text[CONDITION_TEXT_BYTES])
{
    const int64_t own_s = wires_certificate_ends(w), store_s = store_certificate_ends(st);

    text[0] = '\0';
    if (is_ending(own_s))
        write_text("--tls-certificate", own_s, text);
    else if (is_ending(store_s))
        write_text("--store-certificate", store_s, text);
    return is_ending(own_s) && is_over(own_s) && all_encrypted(config);
}
