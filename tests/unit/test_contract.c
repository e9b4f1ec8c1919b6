/* The frozen contract: docs/contract.md says of every method what its options
 * say, and no method is missing; and it has the reasons of <lockstock/reason.h>. */

#include <lockstock/v1/admin.lks.h>
#include <lockstock/v1/guard.lks.h>
#include <lockstock/v1/id.lks.h>
#include <lockstock/v1/idempotency.lks.h>
#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/ratelimit.lks.h>
#include <lockstock/v1/stock.lks.h>

#include "test.h"

#define METHOD(name, Name, request, response, constant) &(constant),
static const lks_rpc_method *const methods[] = {
    LKS_LOCK_METHODS(METHOD) LKS_STOCK_METHODS(METHOD) LKS_IDEMPOTENCY_METHODS(METHOD) LKS_RATE_LIMIT_METHODS(METHOD)
        LKS_ID_METHODS(METHOD) LKS_GUARD_METHODS(METHOD) LKS_ADMIN_METHODS(METHOD)};
enum { N_METHODS = sizeof methods / sizeof methods[0] };

static const char *const effects[] = {"", "READ", "WRITE", "ADMIN"};

/* The row that the options of a method make. */
static void row_of(const lks_rpc_method *method, char *row, size_t size)
{
    const char *id = method->natural_id ? method->natural_id : "";
    const char *filled = method->fill == LKS_RPC_FILL_RANDOM ? "random" : "";
    int len = snprintf(row, size, "%-33s %-6s %-14s %s", method->path + strlen("/lockstock.v1."),
                       effects[method->effect], id, filled);

    while (row[len - 1] == ' ')
        len--;
    snprintf(row + len, size - (size_t)len, "\n");
}

TEST(contract_table_matches_the_options)
{
    FILE *page = fopen(CONTRACT_MD, "r");
    char line[512], row[512];
    size_t found = 0;
    assert_non_null(page);
    while (fgets(line, sizeof line, page)) {
        if (!strstr(line, "Service/"))
            continue;
        assert_true(found < N_METHODS);
        row_of(methods[found++], row, sizeof row);
        assert_string_equal(line, row);
    }
    fclose(page);
    assert_int_equal(found, N_METHODS);
}

TEST(the_list_of_reasons_is_the_headers)
{
#define ROW(name, number, word, help) "- `" word "`: " help "\n",
    static const char *const rows[] = {LKS_REASONS(ROW)};
#undef ROW
    enum { ROWS = sizeof rows / sizeof *rows };
    FILE *page = fopen(CONTRACT_MD, "r");
    char line[512];
    size_t found = 0;
    bool in_section = false;
    assert_non_null(page);
    while (fgets(line, sizeof line, page)) {
        if (line[0] == '#')
            in_section = strcmp(line, "## Errors\n") == 0;
        if (!in_section || strncmp(line, "- `", 3) != 0)
            continue;
        assert_true(found < ROWS);
        assert_string_equal(line, rows[found++]);
    }
    fclose(page);
    assert_int_equal(found, ROWS);
}

TEST_MAIN()
