/* Metrics: the text, the buckets, and that docs/metrics.md has the rows of the table.
 *
 *   test_metrics           with DOCS, the path of docs/metrics.md, in the environment
 *   test_metrics --write   writes the rows there */
#include <lockstock/rpc/exchange.h>

#include "lockstock/v1/stock.lks.h"
#include "net/metrics/rpc_meter.h"
#include "test.h"

static const char *text_of(lks_rpc_arena *arena, void (*write)(metrics_text *t), bool openmetrics)
{
    metrics_text t = {.arena = arena, .openmetrics = openmetrics};

    write(&t);
    metrics_end(&t);
    assert_false(t.failed);
    return lks_rpc_arena_copy(arena, t.data, t.len);
}

/* ---- the format -------------------------------------------------------------------------------------- */

static metrics_histogram some;

static void write_some(metrics_text *t)
{
    metrics_begin(t, METRICS_RELOADS);
    metrics_sample(t, "result=\"done\"", 9007199254740991.0);
    metrics_single(t, METRICS_STORE_ROUND, 0.0015);
    metrics_begin(t, METRICS_STAGES);
    metrics_durations(t, "stage=\"store\"", &some);
}

TEST(text_for_prometheus_and_for_openmetrics)
{
    lks_rpc_arena *arena = lks_rpc_arena_new();

    const char *plain = text_of(arena, write_some, false), *open = text_of(arena, write_some, true);
    assert_non_null(strstr(plain, "# TYPE lockstock_reloads_total counter\n"
                                  "lockstock_reloads_total{result=\"done\"} 9007199254740991\n"));
    assert_non_null(strstr(plain, "# TYPE lockstock_store_round_trip_seconds gauge\n"
                                  "lockstock_store_round_trip_seconds 0.0015\n"));
    assert_null(strstr(plain, "EOF"));
    assert_non_null(strstr(open, "# TYPE lockstock_reloads counter\nlockstock_reloads_total{"));
    assert_string_equal(open + strlen(open) - 6, "# EOF\n");
    lks_rpc_arena_free(arena);
}

TEST(a_duration_counts_in_the_bucket_that_bounds_it)
{
    lks_rpc_arena *arena = lks_rpc_arena_new();

    some = (metrics_histogram){.sum_ns = 0};
    metrics_observe(&some, METRICS_FIRST_NS);
    metrics_observe(&some, METRICS_FIRST_NS + 1);
    metrics_observe(&some, UINT64_C(26214400000)); /* the last bound */
    metrics_observe(&some, UINT64_C(26214400001));
    const char *text = text_of(arena, write_some, false);
    static const char *const wanted[] = {"_bucket{stage=\"store\",le=\"5e-05\"} 1\n", "le=\"0.0001\"} 2\n",
                                         "le=\"26.2144\"} 3\n", "le=\"+Inf\"} 4\n", "_count{stage=\"store\"} 4\n"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strstr(text, wanted[i]))
            fail_msg("no %s in %s", wanted[i], text);
    lks_rpc_arena_free(arena);
}

/* ---- calls --------------------------------------------------------------------------------------------- */

static rpc_meter *meter;

static void write_calls(metrics_text *t)
{
    rpc_meter_write(meter, t);
}

TEST(calls_count_by_method_code_outcome_and_reason)
{
    lks_rpc_arena *arena = lks_rpc_arena_new();
    const lks_rpc_method *deduct = &lks_stock_deduct_method;
    const lks_rpc_route routes[] = {{.method = &lks_stock_get_item_method}, {.method = deduct}};
    lks_deduct_response sold = LKS_DEDUCT_RESPONSE_INIT;
    lks_error ok = {0}, error;

    meter = rpc_meter_new(routes, 2);
    sold.outcome = LKS_DEDUCT_OUTCOME_DEDUCTED;
    for (int i = 0; i < 3; i++) {
        rpc_meter_started(meter, deduct);
        sold.replayed = i == 2;
        rpc_meter_handled(meter, deduct, &sold.base, &ok, 1000000);
    }
    lks_error_set_reason(&error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, LKS_REASON_STORE_UNREACHABLE, "gone");
    rpc_meter_started(meter, deduct);
    rpc_meter_handled(meter, deduct, NULL, &error, 0);
    lks_error_set(&error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "no");
    rpc_meter_started(meter, NULL);
    rpc_meter_handled(meter, NULL, NULL, &error, 0);

#define DEDUCT "grpc_service=\"lockstock.v1.StockService\",grpc_method=\"Deduct\""
    static const char *const wanted[] = {
        "grpc_server_started_total{grpc_type=\"unary\"," DEDUCT "} 4\n",
        "grpc_server_handled_total{grpc_type=\"unary\"," DEDUCT ",grpc_code=\"OK\"} 3\n",
        "grpc_server_handled_total{grpc_type=\"unary\"," DEDUCT ",grpc_code=\"UNAVAILABLE\"} 1\n",
        "grpc_server_handling_seconds_count{grpc_type=\"unary\"," DEDUCT "} 4\n",
        "lockstock_call_outcomes_total{" DEDUCT ",outcome=\"DEDUCT_OUTCOME_DEDUCTED\"} 3\n",
        "lockstock_call_replayed_total{" DEDUCT "} 1\n",
        "lockstock_call_errors_total{" DEDUCT ",applied=\"MAYBE\"} 1\n",
        "lockstock_calls_refused_total{reason=\"store_unreachable\"} 1\n",
        "grpc_server_started_total{grpc_type=\"unary\",grpc_service=\"unknown\",grpc_method=\"unknown\"} 1\n",
        "grpc_server_started_total{grpc_type=\"unary\",grpc_service=\"lockstock.v1.StockService\",grpc_method="
        "\"GetItem\"} 0\n",
    };
    const char *text = text_of(arena, write_calls, false);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strstr(text, wanted[i]))
            fail_msg("no %s in %s", wanted[i], text);
    rpc_meter_free(meter);
    lks_rpc_arena_free(arena);
}

/* ---- the documentation ----------------------------------------------------------------------------------- */

static char *read_docs(void)
{
    static char text[1 << 16];
    const char *path = getenv("DOCS");
    FILE *file = path ? fopen(path, "re") : NULL;

    if (!file)
        fail_msg("DOCS: %s cannot be read", path ? path : "");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static const char heading[] = "updates it -->\n";

static char *rows(void)
{
    static char text[1 << 15];
    size_t len = (size_t)sprintf(text, "| metric | labels | meaning |\n|---|---|---|\n");

    for (int i = 0; i < METRICS_FAMILIES; i++) {
        const metrics_family *f = &metrics_families[i];
        len += (size_t)sprintf(text + len, "| `%s%s` | %s | %s |\n", f->name,
                               f->type == METRICS_COUNTER ? "_total" : "", f->labels, f->help);
    }
    return text;
}

TEST(docs_metrics_md_has_the_rows_of_the_table)
{
    char *docs = read_docs(), *at = strstr(docs, heading);

    assert_non_null(at);
    assert_string_equal(at + sizeof heading - 1, rows());
}

static int write_docs(void)
{
    char *docs = read_docs(), *at = strstr(docs, heading);
    FILE *file = at ? fopen(getenv("DOCS"), "we") : NULL;

    if (!file)
        return 1;
    fprintf(file, "%.*s%s%s", (int)(at - docs), docs, heading, rows());
    return fclose(file) != 0;
}

int main(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "--write") == 0 ? write_docs() : TEST_RUN();
}
