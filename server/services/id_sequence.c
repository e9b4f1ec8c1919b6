/* Blocks of numbers, one for each sequence. Invariant: the server has taken the numbers of a block from the store, each
 * is used once, and those of a sequence increase. At most BLOCKS_MAX sequences are kept: the least recently used one is
 * dropped, and the unused numbers of its block are a gap. */
#include "services/id.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

enum { BLOCKS_MAX = 512 };

typedef struct block {
    char *text; /* namespace and name; NULL: free */
    sequence_name of;
    int64_t next, last;
    uint64_t used; /* value of `looks` when it was last used */
} block;

struct sequences {
    block blocks[BLOCKS_MAX];
    uint64_t looks;
};

sequences *sequences_new(void)
{
    return memory_alloc(sizeof(sequences));
}

void sequences_free(sequences *all)
{
    if (all)
        for (size_t i = 0; i < BLOCKS_MAX; i++)
            free(all->blocks[i].text);
    free(all);
}

static bool same(lks_rpc_slice a, lks_rpc_slice b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static block *find(sequences *all, sequence_name of)
{
    for (size_t i = 0; i < BLOCKS_MAX; i++) {
        block *b = &all->blocks[i];
        if (b->text && same(b->of.name, of.name) && same(b->of.ns, of.ns)) {
            b->used = ++all->looks;
            return b;
        }
    }
    return NULL;
}

/* Makes a block in a free place, or in place of the least recently used one. */
static block *make(sequences *all, sequence_name of)
{
    char *text = memory_alloc(of.ns.len + of.name.len);
    block *oldest = &all->blocks[0];

    memcpy(text, of.ns.data, of.ns.len);
    memcpy(text + of.ns.len, of.name.data, of.name.len);
    for (size_t i = 1; i < BLOCKS_MAX && oldest->text; i++)
        if (!all->blocks[i].text || all->blocks[i].used < oldest->used)
            oldest = &all->blocks[i];
    free(oldest->text);
    *oldest = (block){
        .text = text,
        .of = {.ns = {.data = text, .len = of.ns.len}, .name = {.data = text + of.ns.len, .len = of.name.len}},
        .next = 1,
        .used = ++all->looks,
    };
    return oldest;
}

int64_t sequences_left(sequences *all, sequence_name of)
{
    const block *b = find(all, of);

    return b ? b->last - b->next + 1 : 0;
}

int64_t sequences_take(sequences *all, sequence_name of, int64_t count)
{
    block *b = find(all, of);
    int64_t first = b->next;

    b->next += count;
    return first;
}

void sequences_add(sequences *all, sequence_name of, int64_t first, int64_t last)
{
    block *b = find(all, of);

    if (!b)
        b = make(all, of);
    if (first != b->last + 1)
        b->next = first;
    b->last = last;
}
