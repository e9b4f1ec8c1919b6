/* A call is known by a hash of its method and payload, never by its request id:
 * a retry is a new request with the same call in it. */
#include "chaos_faults.h"

#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/v1/envelope.pb-c.h>

enum { FAULTS_MAX = 8 };

/* A set of hashes: open addressing, 0 = free, at most half full. */
typedef struct hash_set {
    uint64_t *slots;
    size_t used, capacity; /* a power of two, or 0 */
} hash_set;

struct chaos_faults {
    size_t n;
    struct {
        chaos_fault fault;
        uint64_t matched;
    } rows[FAULTS_MAX];
    hash_set requested, answered;
    uint64_t hits;
};

static size_t set_slot(const hash_set *set, uint64_t hash)
{
    size_t i = (size_t)hash & (set->capacity - 1);

    while (set->slots[i] != 0 && set->slots[i] != hash)
        i = (i + 1) & (set->capacity - 1);
    return i;
}

static bool set_grow(hash_set *set)
{
    hash_set wider = {.used = set->used, .capacity = set->capacity == 0 ? 1024 : set->capacity * 2};

    wider.slots = calloc(wider.capacity, sizeof *wider.slots);
    if (!wider.slots)
        return false;
    for (size_t i = 0; i < set->capacity; i++)
        if (set->slots[i] != 0)
            wider.slots[set_slot(&wider, set->slots[i])] = set->slots[i];
    free(set->slots);
    *set = wider;
    return true;
}

/* True when it was not in the set before. */
static bool set_add(hash_set *set, uint64_t hash)
{
    if (set->used * 2 >= set->capacity && !set_grow(set))
        return false;
    size_t i = set_slot(set, hash);
    if (set->slots[i] == hash)
        return false;
    set->slots[i] = hash;
    set->used++;
    return true;
}

/* FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/). */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t n)
{
    const uint8_t *byte = data;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_call(const uint8_t *body, size_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    Lockstock__Rpc__V1__Frame *frame = lockstock__rpc__v1__frame__unpack(NULL, len, body);

    if (!frame) {
        hash = hash_bytes(hash, body, len);
    } else {
        for (size_t i = 0; i < frame->n_calls; i++) {
            const Lockstock__Rpc__V1__Call *call = frame->calls[i];
            hash = hash_bytes(hash, call->method, strlen(call->method) + 1);
            hash = hash_bytes(hash, call->payload.data, call->payload.len);
        }
        lockstock__rpc__v1__frame__free_unpacked(frame, NULL);
    }
    return hash != 0 ? hash : 1;
}

chaos_faults *chaos_faults_new(const chaos_fault faults[], size_t n)
{
    chaos_faults *made = n <= FAULTS_MAX ? calloc(1, sizeof *made) : NULL;

    if (made) {
        made->n = n;
        for (size_t i = 0; i < n; i++)
            made->rows[i].fault = faults[i];
    }
    return made;
}

static chaos_verdict judge(chaos_faults *faults, bool is_reply, bool is_first)
{
    static const struct {
        bool of_reply;
        chaos_verdict verdict;
    } meaning[] = {
        [CHAOS_REQUEST_LOST] = {false, CHAOS_DROP},    [CHAOS_REPLY_LOST] = {true, CHAOS_DROP},
        [CHAOS_REQUEST_CUTS] = {false, CHAOS_CUT},     [CHAOS_REPLY_CUTS] = {true, CHAOS_CUT},
        [CHAOS_REQUEST_TWICE] = {false, CHAOS_DOUBLE},
    };

    for (size_t i = 0; i < faults->n; i++) {
        const chaos_fault *fault = &faults->rows[i].fault;
        if (meaning[fault->which].of_reply != is_reply || (fault->first_of_call && !is_first))
            continue;
        uint64_t before = faults->rows[i].matched++;
        if (before >= fault->after && before - fault->after < fault->times) {
            faults->hits++;
            return meaning[fault->which].verdict;
        }
    }
    return CHAOS_PASS;
}

static uint32_t request_id(const uint8_t *body)
{
    return (uint32_t)body[0] << 24 | (uint32_t)body[1] << 16 | (uint32_t)body[2] << 8 | body[3];
}

chaos_verdict chaos_faults_request(chaos_faults *faults, chaos_open_requests *open, const uint8_t *body, size_t len)
{
    if (len < 4)
        return CHAOS_PASS;
    if (open->n == open->capacity) {
        size_t capacity = open->capacity == 0 ? 64 : open->capacity * 2;
        struct chaos_open_request *list = realloc(open->list, capacity * sizeof *list);
        if (!list)
            return CHAOS_CUT;
        open->list = list;
        open->capacity = capacity;
    }
    uint64_t call = hash_call(body + 4, len - 4);
    open->list[open->n++] = (struct chaos_open_request){.id = request_id(body), .call = call};
    return judge(faults, false, set_add(&faults->requested, call));
}

chaos_verdict chaos_faults_reply(chaos_faults *faults, chaos_open_requests *open, const uint8_t *body, size_t len)
{
    uint32_t id = len >= 4 ? request_id(body) : 0;

    for (size_t i = 0; i < open->n; i++) {
        if (open->list[i].id == id) {
            uint64_t call = open->list[i].call;
            open->list[i] = open->list[--open->n];
            return judge(faults, true, set_add(&faults->answered, call));
        }
    }
    return CHAOS_PASS;
}

uint64_t chaos_faults_hits(const chaos_faults *faults)
{
    return faults->hits;
}

void chaos_open_requests_clear(chaos_open_requests *open)
{
    free(open->list);
    *open = (chaos_open_requests){0};
}

void chaos_faults_free(chaos_faults *faults)
{
    if (faults) {
        free(faults->requested.slots);
        free(faults->answered.slots);
        free(faults);
    }
}
