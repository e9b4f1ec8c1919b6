/* A scene's claims: the first that does not hold is kept. */
#include "lock_scenes.h"

#include <stdarg.h>
#include <sys/random.h>

const lock_scene lock_scenes[] = {
    {"d", scene_outlast}, {"e", scene_holder},  {"f", scene_queue},  {"g", scene_naive}, {"h", scene_click},
    {"i", scene_form},    {"j", scene_penalty}, {"k", scene_settle}, {NULL, NULL},
};

void lock_claim(lock_claims *claims, bool good, const char *format, ...)
{
    if (claims->good && !good) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(claims->why, sizeof claims->why, format, arguments);
        va_end(arguments);
        claims->good = false;
    }
}

lks_code lock_run_id(char ret[17], lks_error *error)
{
    unsigned long long random = 0;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_NO, "no random numbers");
    snprintf(ret, 17, "%016llx", random);
    return LKS_OK;
}
