#include "hashed.h"

#include <pthread.h>

#include <lockstock/rpc/method.h>

#include "base/hash.h"

static uint64_t seed;

static void choose_seed(void)
{
    char id[LKS_RPC_RANDOM_ID_LEN + 1];

    lks_rpc_random_id(id);
    seed = hash_more(HASH_START, id, LKS_RPC_RANDOM_ID_LEN);
}

unsigned hashed_of(const void *key, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, choose_seed);
    return (unsigned)hash_folded(hash_more(seed, key, len));
}
