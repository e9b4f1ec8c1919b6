/* Invariant: what a budget holds is the sum of its shares, and so is what a principal
 * holds of the shares that are its own. Called by the engines and by frames.c. */
#include "net/budget.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTION_PART = 8, PRINCIPAL_PART = 2 };

/* All connections of one principal. */
typedef struct principal_sum {
    size_t held, n_shares;
    char name[];
} principal_sum;

struct budget {
    size_t bytes, held, peak;
    void *principals; /* tsearch, by name */
};

struct budget_share {
    budget *all;
    principal_sum *principal; /* NULL: nobody's */
    size_t held;
    bool closed;
};

budget *budget_new(size_t bytes)
{
    budget *all = malloc(sizeof *all);

    if (all)
        *all = (budget){.bytes = bytes};
    return all;
}

void budget_free(budget *all)
{
    free(all);
}

size_t budget_held(const budget *all)
{
    return all->held;
}

size_t budget_peak(budget *all)
{
    size_t peak = all->peak;

    all->peak = all->held;
    return peak;
}

budget_share *budget_open(budget *all)
{
    budget_share *share = malloc(sizeof *share);

    if (share)
        *share = (budget_share){.all = all};
    return share;
}

/* ---- principals ----------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const principal_sum *)a)->name, ((const principal_sum *)b)->name);
}

static principal_sum *find_or_add(budget *all, const char *name)
{
    size_t len = strlen(name);
    principal_sum *sum = calloc(1, sizeof *sum + len + 1);
    principal_sum **found;

    if (!sum)
        return NULL;
    memcpy(sum->name, name, len);
    found = tsearch(sum, &all->principals, by_name);
    if (!found || *found != sum)
        free(sum);
    return found ? *found : NULL;
}

static void leave_principal(budget_share *share)
{
    principal_sum *sum = share->principal;

    if (!sum)
        return;
    share->principal = NULL;
    sum->held -= share->held;
    if (--sum->n_shares == 0) {
        tdelete(sum, &share->all->principals, by_name);
        free(sum);
    }
}

void budget_set_principal(budget_share *share, const char *principal)
{
    principal_sum *sum;

    if (share->principal && principal && strcmp(share->principal->name, principal) == 0)
        return;
    sum = principal ? find_or_add(share->all, principal) : NULL;
    if (principal && !sum)
        return;
    leave_principal(share);
    share->principal = sum;
    if (sum) {
        sum->n_shares++;
        sum->held += share->held;
    }
}

bool budget_has_principal(const budget_share *share)
{
    return share->principal;
}

/* ---- bytes ------------------------------------------------------------------------ */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

bool budget_take(budget_share *share, size_t bytes)
{
    const budget *all = share->all;
    size_t left = all->held < all->bytes ? all->bytes - all->held : 0;
    size_t held = share->held + bytes;

    if (held > BUDGET_SMALL_BYTES) {
        const principal_sum *sum = share->principal;
        if (held > smaller(left, all->bytes / CONNECTION_PART) ||
            (sum && sum->held + bytes > smaller(left, all->bytes / PRINCIPAL_PART)))
            return false;
    }
    budget_force(share, bytes);
    return true;
}

void budget_force(budget_share *share, size_t bytes)
{
    share->held += bytes;
    share->all->held += bytes;
    if (share->all->held > share->all->peak)
        share->all->peak = share->all->held;
    if (share->principal)
        share->principal->held += bytes;
}

static void free_when_over(budget_share *share)
{
    if (!share->closed || share->held > 0)
        return;
    leave_principal(share);
    free(share);
}

void budget_give(budget_share *share, size_t bytes)
{
    if (bytes == 0)
        return; /* a closed share lives only while something is held of it */
    share->held -= bytes;
    share->all->held -= bytes;
    if (share->principal)
        share->principal->held -= bytes;
    free_when_over(share);
}

void budget_close(budget_share *share)
{
    if (!share)
        return;
    share->closed = true;
    free_when_over(share);
}

size_t budget_share_held(const budget_share *share)
{
    return share->held;
}
