/* Invariant: a budget holds the sum of its shares, and a principal the sum of its own shares. Called by the engines
 * and frames.c. */
#include "net/admission/budget.h"

#include <stdlib.h>
#include <string.h>

#include "base/named.h"

enum { CONNECTION_PART = 8, PRINCIPAL_PART = 2 };

/* The bytes of all connections of a principal. Its members are these connections. */
typedef struct principal_sum {
    named_entry named;
    size_t held;
} principal_sum;

struct budget {
    size_t bytes, held, noted, peak; /* `peak`: of held + noted */
    named_set principals;
};

struct budget_share {
    budget *all;
    principal_sum *principal; /* NULL: none */
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
    return all->held + all->noted;
}

static void update_peak(budget *all)
{
    if (budget_held(all) > all->peak)
        all->peak = budget_held(all);
}

size_t budget_peak(budget *all)
{
    size_t peak = all->peak;

    all->peak = budget_held(all);
    return peak;
}

void budget_note(budget *all, size_t bytes)
{
    all->noted += bytes;
    update_peak(all);
}

void budget_unnote(budget *all, size_t bytes)
{
    all->noted -= bytes;
}

budget_share *budget_open(budget *all)
{
    budget_share *share = malloc(sizeof *share);

    if (share)
        *share = (budget_share){.all = all};
    return share;
}

/* ---- principals ----------------------------------------------------------------- */

static void leave_principal(budget_share *share)
{
    principal_sum *sum = share->principal;

    if (!sum)
        return;
    share->principal = NULL;
    sum->held -= share->held;
    named_leave(&share->all->principals, sum);
}

void budget_set_principal(budget_share *share, const char *principal)
{
    principal_sum *sum;

    if (share->principal && principal && strcmp(share->principal->named.name, principal) == 0)
        return;
    sum = principal ? named_enter(&share->all->principals, principal, sizeof *sum) : NULL;
    if (principal && !sum)
        return;
    leave_principal(share);
    share->principal = sum;
    if (sum)
        sum->held += share->held;
}

const char *budget_principal(const budget_share *share)
{
    return share->principal ? share->principal->named.name : NULL;
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
    update_peak(share->all);
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
        return; /* a closed share is freed with its last byte */
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
