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

/* A table's cell: " text " or one space. */
static size_t cell(char *out, size_t size, const char *text)
{
    return (size_t)snprintf(out, size, " %s%s|", text, *text ? " " : "");
}

/* The row that the options of a method make. */
static void row_of(const lks_rpc_method *method, char *row, size_t size)
{
    size_t at = (size_t)snprintf(row, size, "|");

    at += cell(row + at, size - at, method->path + strlen("/lockstock.v1."));
    at += cell(row + at, size - at, effects[method->effect]);
    at += cell(row + at, size - at, method->natural_id ? method->natural_id : "");
    at += cell(row + at, size - at, method->fill == LKS_RPC_FILL_RANDOM ? "random" : "");
    snprintf(row + at, size - at, "\n");
}

TEST(the_table_is_what_the_options_say)
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

TEST(the_table_of_reasons_is_the_headers)
{
#define ROW(name, number, word, help) "| `" word "` | " help " |\n",
    static const char *const rows[] = {LKS_REASONS(ROW)};
#undef ROW
    enum { ROWS = sizeof rows / sizeof *rows };
    FILE *page = fopen(CONTRACT_MD, "r");
    char line[512];
    size_t found = 0;
    bool in_table = false;
    assert_non_null(page);
    while (fgets(line, sizeof line, page)) {
        if (in_table && line[0] == '|' && line[1] == ' ') {
            assert_true(found < ROWS);
            assert_string_equal(line, rows[found++]);
        }
        in_table = line[0] == '|' && (in_table || strcmp(line, "| reason | meaning |\n") == 0);
    }
    fclose(page);
    assert_int_equal(found, ROWS);
}

TEST_MAIN()
