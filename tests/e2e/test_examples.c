/* Code in README and docs/ is a file that is compiled and run here, or a part of one, to the letter. */

#include "support/server_fixture.h"
#include "test.h"

static char *read_file(const char *path)
{
    char *text = calloc(1, 1 << 20);
    FILE *file = fopen(path, "r");

    assert_non_null(text);
    if (!file)
        fail_msg("cannot read %s", path);
    size_t n = fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    assert_true(n > 0);
    return text;
}

/* The page's block under "<!-- examples/NAME.c -->" is the source file; a block under "<!-- from examples/NAME.c -->" is a
 * part of it. */
static void assert_shows(const char *page_path, const char *name)
{
    char marker[64], source_path[512];

    snprintf(marker, sizeof marker, "examples/%s.c -->\n```c\n", name);
    snprintf(source_path, sizeof source_path, SOURCE_DIR "/examples/%s.c", name);
    char *page = read_file(page_path), *source = read_file(source_path);
    char *at = strstr(page, marker);
    if (!at)
        fail_msg("%s has no block of %s.c", page_path, name);
    bool is_part = at - page >= 5 && strncmp(at - 5, "from ", 5) == 0;
    char *block = at + strlen(marker), *end = strstr(block, "```\n");
    assert_non_null(end);
    *end = '\0';
    if (!is_part)
        assert_string_equal(block, source);
    else if (!strstr(source, block))
        fail_msg("%s.c has no\n%s", name, block);
    free(page);
    free(source);
}

/* ---- the examples: the page that shows each, and what it says ------------------- */

typedef struct example {
    const char *name, *page;
    const char *output;
} example;

static const example examples[] = {
    {"quickstart", "README.md", "DEDUCTED\n"},
    {"async", "docs/client.md", "3 sold\n"},
    {"cart", "docs/stock.md",
     "order-1: sold\norder-1: sold before\norder-2: enough of phone\n"
     "ledger: order-1 sold 1 of phone\nledger: order-1 sold 2 of cover\n"},
    {"fence", "docs/locks.md", "the second writes\nthe first is too late\n"},
    {"mutex", "docs/client.md", "written\n"},
    {"once", "docs/client.md",
     "charging card 1234\norder-1: paid with card 1234\norder-1: paid with card 1234, before\n"
     "order-1: not with another card\norder-2: no card\norder-2: no card, before\n"},
    {"limiter", "docs/client.md",
     "alice: go on, 2 left\nalice: go on, 1 left\nalice: go on, 0 left\n"
     "alice: too often, rule 0; try again in a while\nbob: go on, 2 left\nalice: not within a second\n"},
    {"reservation", "docs/client.md", "alice: not paid\nbob: sold\ncarol: sold out: seat, of which 1 are available\n"},
    {"charge", "docs/idempotency.md",
     "charged: 20 EUR for order-7\ncharged before: 20 EUR for order-7\n"
     "refused: order-7 was for another amount\n"},
    {"ids", "docs/id.md", "10 ids, increasing, made since 2024\na UUID of version 7\nticket 1\nticket 2\n"},
    {"ratelimit", "docs/ratelimit.md",
     "message-1: sent, 2 left\nmessage-2: sent, 1 left\nmessage-3: sent, 0 left\n"
     "message-4: not before many minutes\nmessage-3: given back\nmessage-5: sent, 0 left\n"},
    {"fenced_row", "docs/fencing.md", "by the second: written\nby the first: too late\n"},
};
enum { N_EXAMPLES = sizeof examples / sizeof examples[0] };

TEST(test_pages_show_the_files)
{
    char page[512];
    for (size_t i = 0; i < N_EXAMPLES; i++) {
        snprintf(page, sizeof page, SOURCE_DIR "/%s", examples[i].page);
        assert_shows(page, examples[i].name);
    }
}

static void assert_says(const char *url, const example *e)
{
    char program[512];
    snprintf(program, sizeof program, EXAMPLES_DIR "/%s", e->name);
    const char *const argv[] = {program, url, NULL};
    process *p = process_spawn(argv, NULL);

    assert_non_null(p);
    assert_true(process_exited_with(p, 0, 60000));
    assert_string_equal(process_output(p), e->output);
    process_free(p);
}

TEST(test_they_run)
{
    server_fixture *server = server_fixture_start(NULL);
    assert_non_null(server);
    for (size_t i = 0; i < N_EXAMPLES; i++)
        assert_says(server_fixture_url(server), &examples[i]);
    assert_says(server_fixture_url(server), &examples[0]); /* the same order again */
    assert_true(server_fixture_stop(server, 60000));
    server_fixture_free(server);
}

TEST_MAIN()
