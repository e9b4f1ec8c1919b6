#include "calls/hashed.h"

#include <lockstock/rpc/method.h>

#include "base/hash.h"

unsigned hashed_of(const void *key, size_t len)
{
    static uint64_t seed;
    char id[LKS_RPC_RANDOM_ID_LEN + 1];

    if (seed == 0) {
        lks_rpc_random_id(id);
        seed = hash_more(HASH_START, id, LKS_RPC_RANDOM_ID_LEN);
    }
    return (unsigned)hash_folded(hash_more(seed, key, len));
}
