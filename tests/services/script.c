/* Invariant: a line is empty when it is given out, and whole or cut at its end. On a difference both sides are
 * printed. */
#include "services/script.h"

enum { LINES = 64 };

harness *h;
lks_error err;

static char lines[LINES][LINE_BYTES];
static size_t next_line;
static char *remembered;

int script_open(void **state)
{
    h = harness_new();
    return h ? 0 : -1;
}

int script_reset(void **state)
{
    harness_redis(h, "CONFIG SET maxmemory 0"); /* as a test that failed may have left it */
    harness_reset(h);
    return 0;
}

int script_close(void **state)
{
    free(remembered);
    harness_free(h);
    return 0;
}

/* ---- requests ---- */

const service_method *method_for(const void *request, const service **ret)
{
    const ProtobufCMessageDescriptor *type = ((const ProtobufCMessage *)request)->descriptor;

    for (size_t i = 0; i < SERVICES; i++) {
        *ret = all_services[i];
        for (size_t k = 0; k < all_services[i]->n_methods; k++)
            if (all_services[i]->methods[k].method->request == type)
                return &all_services[i]->methods[k];
    }
    fail_msg("no service has a method for %s", type->name);
    return NULL;
}

static const char *method_of(const void *request, const service **ret)
{
    return strrchr(method_for(request, ret)->method->path, '/') + 1;
}

const void *answer_to(const void *request)
{
    const service *s;
    const char *method = method_of(request, &s);

    return harness_call(h, s, method, request, &err);
}

harness_waiting *start_at(const char *server, const void *request)
{
    const service *s;
    const char *method = method_of(request, &s);

    return harness_start(h, s, server, method, request);
}

void ask_together(size_t n, const void *const requests[], const void *responses[], lks_error errors[])
{
    const service *s;
    const char *method = method_of(requests[0], &s);

    harness_call_together(h, s, method, n, requests, responses, errors);
}

long fcalls_made(void)
{
    static long before;
    long all = harness_commands(h, "fcall"), since = all - before;

    before = all;
    return since;
}

size_t words(const char *from, char *copy, char **word)
{
    size_t n = 0;

    snprintf(copy, LINE_BYTES, "%s", from);
    for (char *at = strtok(copy, " "); at && n < WORDS_MAX; at = strtok(NULL, " "))
        word[n++] = at;
    return n;
}

char *token_of(const char *alias)
{
    char *token = new_line();

    add_line(token, "%s", alias);
    while (strlen(token) < SERVICE_TOKEN_BYTES_MIN)
        add_line(token, ".");
    return token;
}

/* ---- answers as text ---- */

static int number_of(const ProtobufCMessage *response, const ProtobufCFieldDescriptor *field)
{
    return field ? *(const int *)(const void *)((const char *)response + field->offset) : 0;
}

char *line_of(const void *response)
{
    const ProtobufCMessage *message = response;
    char *line = new_line();

    if (!message) {
        add_line(line, "%s %s %s", lks_code_name(err.code), lks_applied_name(err.applied), err.message);
        return line;
    }
    const ProtobufCFieldDescriptor *outcome =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "outcome");
    const ProtobufCFieldDescriptor *replayed =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "replayed");
    add_line(line, "%s%s", outcome ? harness_word(outcome->descriptor, number_of(message, outcome)) : "OK",
             number_of(message, replayed) ? " again" : "");
    return line;
}

const char *call(const void *request)
{
    return answer_to(request) ? "OK" : line_of(NULL);
}

char *new_line(void)
{
    char *line = lines[next_line++ % LINES];

    line[0] = '\0';
    return line;
}

void add(char *to, size_t size, const char *format, ...)
{
    size_t len = strlen(to);
    va_list args;

    va_start(args, format);
    vsnprintf(to + len, size - len, format, args);
    va_end(args);
}

/* ---- checks ---- */

void says_begin(const char *said, const char *expected)
{
    if (strncmp(said, expected, strlen(expected)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", said, expected);
}

void expect_error(lks_code code, const char *field)
{
    if (err.code != code || err.applied != LKS_APPLIED_NO)
        fail_msg("%s NO expected, got %s", lks_code_name(code), line_of(NULL));
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
    says(harness_snapshot(h), remembered);
}

void refuses(const void *request, const char *field)
{
    if (answer_to(request))
        fail_msg("%s took a bad %s", ((const ProtobufCMessage *)request)->descriptor->short_name, field);
    expect_error(LKS_INVALID_ARGUMENT, field);
    expect_unchanged();
}

void refuses_bytes(const service *s, const char *method, const char *bytes, size_t len, const char *field)
{
    assert_null(harness_call_bytes(h, s, method, bytes, len, &err));
    says_begin(line_of(NULL), "INVALID_ARGUMENT NO ");
    if (!strstr(err.message, field))
        fail_msg("%s is not named: %s", field, err.message);
    expect_unchanged();
}

void about(int64_t left_ms, int64_t expected_ms)
{
    if (left_ms > expected_ms || left_ms < expected_ms - 90000)
        fail_msg("%lld ms are left, not %lld", (long long)left_ms, (long long)expected_ms);
}

void pass_seconds(int64_t seconds)
{
    harness_advance_ms(h, seconds * 1000);
}
