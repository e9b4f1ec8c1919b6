/* Every message is one line on standard error, whatever text a server sends. */
#include "exits.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/duration.h"
#include "words.h"

const exits_row exits_rows[] = {
    {EXIT_DONE, "Done."},
    {EXIT_REFUSED,
     "A server refused: busy, sold out, denied, in progress, not found, already exists. doctor: something is wrong."},
    {EXIT_USAGE, "The call is invalid: an unknown flag, a field out of range."},
    {EXIT_UNAVAILABLE, "No server can be reached or has room. Nothing was applied."},
    {EXIT_UNKNOWN,
     "The call may have been applied: the answer was lost. Repeating it with the same id gives the answer."},
    {EXIT_OTHER, "Any other error, such as missing permissions."},
    {EXIT_LOST, "run, guard run, once and limit: the lock was lost; the program was ended, or not started. 121 to 125 "
                "are 120 plus the codes above; other codes are the program's."},
    {EXIT_CANNOT_RUN, "The program cannot be run."},
    {EXIT_NO_PROGRAM, "There is no such program."},
    {EXIT_SIGNAL, "128 plus the number of the signal that ended the program."},
};
const size_t exits_rows_len = sizeof exits_rows / sizeof *exits_rows;

void exits_say(const char *format, ...)
{
    char *line;
    va_list args;

    va_start(args, format);
    if (vasprintf(&line, format, args) < 0)
        line = NULL;
    va_end(args);
    fprintf(stderr, "lockstock: %s\n", line ? line : "out of memory"); /* one write */
    free(line);
}

exit_code exits_wrong(const char *what, const char *why)
{
    exits_say("%s: %s", what, why);
    return EXIT_USAGE;
}

exit_code exits_refused(const char *before, const char *why)
{
    char text[1024 + 1];

    words_printable(why, text, sizeof text);
    exits_say("%s%s", before, text);
    return EXIT_REFUSED;
}

exit_code exits_exec(char *const argv[])
{
    fflush(NULL);
    execvp(argv[0], argv);
    exit_code code = errno == ENOENT ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN;
    exits_wrong(argv[0], strerror(errno));
    return code;
}

exit_code exits_flush(exit_code code, exit_code failed)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    exits_wrong("standard output", "cannot be written");
    return code == EXIT_DONE ? failed : code;
}

/* What the caller can do about an error. */
static const char *remedy_of(lks_code code)
{
    switch (code) {
    case LKS_UNAUTHENTICATED:
        return "; identify yourself with --token-file, or with --tls-certificate and --tls-key";
    case LKS_PERMISSION_DENIED:
        return "; the server's --policy grants rights by principal and namespace";
    default:
        return "";
    }
}

static bool in_json;

void exits_in_json(void)
{
    in_json = true;
}

static void print_json(const lks_error *error)
{
    json_t *json =
        json_pack("{s:{s:s, s:s, s:s, s:s, s:I, s:s}}", "error", "code", lks_code_name(error->code), "applied",
                  lks_applied_name(error->applied), "reason", lks_reason_name(error->reason), "field", error->field,
                  "retry_after_ms", (json_int_t)error->retry_after_ms, "message", error->message);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    json_decref(json);
    fprintf(stderr, "%s\n", text ? text : "lockstock: out of memory");
    free(text);
}

static void print_text(const lks_error *error, bool in_doubt)
{
    char text[LKS_ERROR_MESSAGE_MAX], after[WORDS_BYTES] = "";
    static const char of_library[] = "options."; /* the parameters of C functions, which the user does not know */
    bool is_of_library = strncmp(error->message, of_library, strlen(of_library)) == 0;

    words_printable(error->message + (is_of_library ? strlen(of_library) : 0), text, sizeof text);
    if (error->retry_after_ms > 0) {
        char left[WORDS_BYTES];
        duration_write(error->retry_after_ms, left);
        snprintf(after, sizeof after, ", try again in %.32s", left);
    }
    exits_say("%s (%s%s)%s", text, lks_code_name(error->code), after,
              !in_doubt                           ? remedy_of(error->code)
              : error->applied == LKS_APPLIED_YES ? "; it was applied"
                                                  : "; it may have been applied");
}

exit_code exits_failed(const lks_error *error, bool is_read)
{
    bool in_doubt = !is_read && error->applied != LKS_APPLIED_NO;

    if (in_json)
        print_json(error);
    else
        print_text(error, in_doubt);
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

exit_code exits_doubtful(void)
{
    lks_error doubt;

    lks_error_set(&doubt, LKS_UNKNOWN, LKS_APPLIED_MAYBE, "refused, but an earlier try of the call was not answered");
    return exits_failed(&doubt, false);
}
