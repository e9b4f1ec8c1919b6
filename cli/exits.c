/* Every message is one line on standard error, whatever a server says. */
#include "exits.h"

#include <stdio.h>

#include "words.h"

exit_code exits_wrong(const char *what, const char *why)
{
    fprintf(stderr, "lockstock: %s: %s\n", what, why);
    return EXIT_USAGE;
}

exit_code exits_refused(const char *before, const char *why)
{
    char text[1024 + 1];

    words_printable(why, text, sizeof text);
    fprintf(stderr, "lockstock: %s%s\n", before, text);
    return EXIT_REFUSED;
}

exit_code exits_failed(const lks_error *error, bool is_read)
{
    bool in_doubt = !is_read && error->applied != LKS_APPLIED_NO;
    char text[LKS_ERROR_MESSAGE_MAX], after[WORDS_BYTES] = "";

    words_printable(error->message, text, sizeof text);
    if (error->retry_after_ms > 0) {
        char left[WORDS_BYTES];
        words_of_ms(error->retry_after_ms, left);
        snprintf(after, sizeof after, ", try again in %.32s", left);
    }
    fprintf(stderr, "lockstock: %s (%s%s)%s\n", text, lks_code_name(error->code), after,
            in_doubt ? error->applied == LKS_APPLIED_YES ? "; it was done" : "; it may have been done" : "");
    if (in_doubt)
        return EXIT_UNKNOWN;
    switch (error->code) {
    case LKS_UNAVAILABLE:
    case LKS_DEADLINE_EXCEEDED:
    case LKS_RESOURCE_EXHAUSTED:
        return EXIT_UNAVAILABLE;
    case LKS_INVALID_ARGUMENT:
        return EXIT_USAGE;
    case LKS_NOT_FOUND:
    case LKS_ALREADY_EXISTS:
    case LKS_FAILED_PRECONDITION:
    case LKS_ABORTED:
    case LKS_OUT_OF_RANGE:
        return EXIT_REFUSED;
    default:
        return EXIT_OTHER;
    }
}
