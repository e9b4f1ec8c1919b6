/* Plays vectors.txt: the server must send exactly its bytes. */
#include "conformance/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/line.h"

enum { BYTES_MAX = 4096, TEXT_MAX = 16384, SEEN_MAX = 65536, BEGINNING_MAX = 4 };

typedef struct step {
    char name[64];
    char direction;
    uint8_t bytes[BYTES_MAX];
    size_t len;
} step;

typedef struct play {
    char name[64];
    step beginning[BEGINNING_MAX]; /* of each connection */
    size_t n_beginning;
    line *line;
    uint8_t seen[SEEN_MAX]; /* what came since the last step that looked into it */
    size_t seen_len, plays;
} play;

static uint8_t hex_byte(const char *text)
{
    char digits[3] = {text[0], text[1], '\0'}, *end;
    unsigned long value = strtoul(digits, &end, 16);

    assert_true(end == digits + 2);
    return (uint8_t)value;
}

/* "name | direction | hex | meaning"; false: a comment, or empty. marks: of unix sockets, [01]. */
static bool read_step(char *text, bool marks, step *s)
{
    char direction[4], hex[TEXT_MAX];

    if (text[0] == '#' || text[0] == '\n')
        return false;
    hex[0] = '\0';
    if (sscanf(text, "%63s | %1[<>~x] | %16000[][0-9a-f ]", s->name, direction, hex) < 2)
        fail_msg("vectors.txt: %s", text);
    s->direction = direction[0];
    s->len = 0;
    for (const char *c = hex; *c != '\0'; c++) {
        if (*c == '[' && !marks) {
            c += strlen("01]");
        } else if (!strchr("[] ", *c)) {
            assert_true(s->len < BYTES_MAX);
            s->bytes[s->len++] = hex_byte(c++);
        }
    }
    return true;
}

static void expect_exactly(play *p, const step *s)
{
    uint8_t got[BYTES_MAX];

    if (!line_receive_all(p->line, got, s->len))
        fail_msg("%s: the connection ends before %zu bytes came", s->name, s->len);
    for (size_t i = 0; i < s->len; i++)
        if (got[i] != s->bytes[i])
            fail_msg("%s: byte %zu is %02x instead of %02x", s->name, i, got[i], s->bytes[i]);
}

static void expect_among(play *p, const step *s)
{
    while (!memmem(p->seen, p->seen_len, s->bytes, s->len)) {
        size_t n = line_receive(p->line, p->seen + p->seen_len, SEEN_MAX - p->seen_len);
        if (n == 0)
            fail_msg("%s: not among the %zu bytes that came", s->name, p->seen_len);
        p->seen_len += n;
    }
}

static void take_step(play *p, const step *s)
{
    if (s->direction == '>')
        assert_true(line_send(p->line, s->bytes, s->len));
    else if (s->direction == '<')
        expect_exactly(p, s);
    else if (s->direction == '~')
        expect_among(p, s);
    else if (!line_ends(p->line))
        fail_msg("%s: the connection is not closed", s->name);
}

/* Steps of one name are of one connection. */
static void play_step(play *p, const step *s)
{
    if (strcmp(p->name, s->name) != 0) {
        line_close(p->line);
        p->line = line_open(server_fixture_url(here.server), server_fixture_certificate(here.server),
                            strcmp(here.wire->vectors, "grpc") == 0 ? "h2" : NULL);
        assert_non_null(p->line);
        memcpy(p->name, s->name, sizeof p->name);
        p->seen_len = 0;
        p->plays++;
        for (size_t i = 0; !strstr(s->name, "-raw/") && i < p->n_beginning; i++)
            take_step(p, &p->beginning[i]);
    }
    take_step(p, s);
}

/* Whether a step is of the wire under test: wire/... or wire-raw/...; unix has what sp has. */
static bool is_spoken(const step *s, bool marks)
{
    size_t len = strcspn(s->name, "-/");

    return (strncmp(s->name, here.wire->vectors, len) == 0 && here.wire->vectors[len] == '\0') ||
           (marks && strncmp(s->name, "sp", len) == 0);
}

TEST(server_speaks_the_bytes_of_the_vectors)
{
    static char text[TEXT_MAX];
    static step s;
    static play p;
    FILE *file;
    if (!here.wire->vectors)
        skip(); /* libnng makes the bytes; each other wire has the same ones */
    file = fopen(VECTORS_PATH, "r");
    assert_non_null(file);
    bool marks = strcmp(here.wire->vectors, "unix") == 0;
    while (fgets(text, sizeof text, file)) {
        if (!read_step(text, marks, &s) || !is_spoken(&s, marks))
            continue;
        if (strchr(s.name, '*')) {
            assert_true(p.n_beginning < BEGINNING_MAX);
            p.beginning[p.n_beginning++] = s;
        } else {
            play_step(&p, &s);
        }
    }
    fclose(file);
    line_close(p.line);
    print_message("    %zu vectors\n", p.plays);
    assert_true(p.plays > 0);
}
