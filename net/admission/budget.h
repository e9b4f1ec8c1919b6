/* Memory of connections: requests that are not answered, and answers that the peer has not read. Each connection has
 * a share. Beyond a small guaranteed part, a share may hold only as many bytes as are free in the whole budget. So
 * neither one connection nor all connections of one principal can use up the memory of the others (dynamic thresholds:
 * Choudhury and Hahne, 1998). Loop thread only. */
#ifndef LOCKSTOCK_NET_ADMISSION_BUDGET_H
#define LOCKSTOCK_NET_ADMISSION_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

typedef struct budget budget;
typedef struct budget_share budget_share;

/* Guaranteed to every connection. */
enum { BUDGET_SMALL_BYTES = 16 * 1024 };

/* `bytes`: the limit for all connections together, without their guaranteed parts. NULL when out of memory. */
budget *budget_new(size_t bytes);

/* Every share must be closed and empty. Takes NULL. */
void budget_free(budget *all);

/* Bytes held now, including noted bytes. */
size_t budget_held(const budget *all);

/* The most bytes held since the last call, or since the beginning. */
size_t budget_peak(budget *all);

/* Counts bytes that have a limit of their own: budget_held includes them, but they take no room from shares. */
void budget_note(budget *all, size_t bytes);
void budget_unnote(budget *all, size_t bytes);

/* The share of a new connection; NULL when out of memory. */
budget_share *budget_open(budget *all);

/* The connection is closed. The share is freed when it holds nothing. Takes NULL. */
void budget_close(budget_share *share);

/* Sets the connection's principal. All shares of one principal together hold at most half of the budget. Copies the
 * name; NULL: none. A later call replaces the principal. When out of memory, nothing changes. */
void budget_set_principal(budget_share *share, const char *principal);

/* The principal's name, valid until another is set. NULL: none. */
const char *budget_principal(const budget_share *share);

/* Holds bytes. Returns false and holds nothing when the share would exceed its part. */
bool budget_take(budget_share *share, size_t bytes);

/* Holds bytes that are already in memory, without a limit. */
void budget_force(budget_share *share, size_t bytes);

/* Gives back bytes of budget_take or budget_force. With 0 bytes the share need not exist. */
void budget_give(budget_share *share, size_t bytes);

/* What one call holds of its connection's share. While it holds a byte, the share exists. */
typedef struct budget_claim {
    budget_share *share;
    size_t bytes;
} budget_claim;

/* Returns false and holds nothing when there is no room. */
static inline bool budget_claim_take(budget_claim *c, size_t bytes)
{
    if (!budget_take(c->share, bytes))
        return false;
    c->bytes += bytes;
    return true;
}

static inline void budget_claim_give(budget_claim *c, size_t bytes)
{
    c->bytes -= bytes;
    budget_give(c->share, bytes);
}

/* Sets the bytes that the claim holds, whether or not there is room. */
static inline void budget_claim_only(budget_claim *c, size_t bytes)
{
    if (bytes > c->bytes)
        budget_force(c->share, bytes - c->bytes);
    else
        budget_give(c->share, c->bytes - bytes);
    c->bytes = bytes;
}

#endif
