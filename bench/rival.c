#include "rival.h"

#include <string.h>

/* clang-format off */
const rival rivals[] = {
    {"hiredis threads, function", OF_DEDUCT, .kind = RIVAL_THREADS},
    {"hiredis threads, script", OF_DEDUCT, .kind = RIVAL_THREADS, .work = {.script = true}},
    {"hiredis pipelined, function", OF_DEDUCT, .kind = RIVAL_PIPELINE},
    {"hiredis pipelined, script", OF_DEDUCT, .kind = RIVAL_PIPELINE, .work = {.script = true}},
    {"gRPC C++ service, function", OF_DEDUCT, .kind = RIVAL_GRPC},
    {"lockstock over gRPC, the same C++ client", OF_DEDUCT, .kind = RIVAL_GRPC_OURS},
    {"redis-benchmark -P 1, function", OF_DEDUCT, .kind = RIVAL_BENCHMARK, .pipeline = 1},
    {"redis-benchmark -P 1, script", OF_DEDUCT, .kind = RIVAL_BENCHMARK, .pipeline = 1, .work = {.script = true}},
    {"redis-benchmark -P 16, function", OF_DEDUCT, .kind = RIVAL_BENCHMARK, .pipeline = 16},
    {"redis-benchmark -P 16, script", OF_DEDUCT, .kind = RIVAL_BENCHMARK, .pipeline = 16, .work = {.script = true}},
    {"lock, hiredis threads, function", OF_LOCK, .kind = RIVAL_THREADS, .work = {.locks = true}},
    {"lock, hiredis threads, script", OF_LOCK, .kind = RIVAL_THREADS, .work = {.locks = true, .script = true}},
    {"lock, hiredis pipelined, function", OF_LOCK, .kind = RIVAL_PIPELINE, .work = {.locks = true}},
    {"lock, hiredis pipelined, script", OF_LOCK, .kind = RIVAL_PIPELINE, .work = {.locks = true, .script = true}},
    {"SET NX and BLPOP", OF_HOT_LOCK, .kind = RIVAL_BLPOP, .work = {.locks = true, .script = true}},
    {"SET NX and polling, 3 to 33 ms", OF_HOT_LOCK, .kind = RIVAL_POLLING, .work = {.locks = true, .script = true}},
    {"BLPOP of a bare list, no lease", OF_HOT_LOCK, .kind = RIVAL_LIST, .work = {.locks = true, .script = true}},
    {"redis-benchmark -P 16, script of a Deduct", OF_ANY, OF_LOCK, .kind = RIVAL_BENCHMARK, .pipeline = 16,
     .work = {.script = true}},
    {"16 commands, function", OF_TABLE, .kind = RIVAL_CHUNKS},
    {"16 commands, 64 a function", OF_TABLE, .kind = RIVAL_CHUNKS, .work = {.subs = COMMAND_SUBS_MAX}},
    {"16 commands, script", OF_TABLE, .kind = RIVAL_CHUNKS, .work = {.script = true}},
    {"16 commands, lock function", OF_TABLE, .kind = RIVAL_CHUNKS, .work = {.locks = true}},
    {"16 commands, lock script", OF_TABLE, .kind = RIVAL_CHUNKS, .work = {.locks = true, .script = true}},
};
/* clang-format on */
const size_t n_rivals = sizeof rivals / sizeof *rivals;

const rival *rival_find(const char *name)
{
    for (size_t i = 0; i < n_rivals; i++)
        if (strcmp(rivals[i].name, name) == 0)
            return &rivals[i];
    return NULL;
}
