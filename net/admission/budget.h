/* Bytes held for connections: what came and is not answered yet, and answers that the
 * peer has not taken. Each connection has a share; so that one of them, or all of one
 * principal, cannot take the room of the others, a share beyond a small part of its own
 * may only hold as much as is left free (dynamic thresholds: Choudhury and Hahne, 1998).
 * Loop thread only. */
#ifndef LOCKSTOCK_NET_ADMISSION_BUDGET_H
#define LOCKSTOCK_NET_ADMISSION_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

typedef struct budget budget;
typedef struct budget_share budget_share;

/* What every connection may hold, whatever the others do. */
enum { BUDGET_SMALL_BYTES = 16 * 1024 };

/* `bytes`: of all connections together, but for the small parts. NULL when out of memory. */
budget *budget_new(size_t bytes);

/* With every share closed and given back. Takes NULL. */
void budget_free(budget *all);

/* Bytes held now, of all, with those noted. */
size_t budget_held(const budget *all);

/* The most that was held since this was called before; at first, since the beginning. */
size_t budget_peak(budget *all);

/* Bytes that are bounded elsewhere and take nobody's room: they only count for what was held. */
void budget_note(budget *all, size_t bytes);
void budget_unnote(budget *all, size_t bytes);

/* The share of a new connection; NULL when out of memory. */
budget_share *budget_open(budget *all);

/* The connection is gone; the share is freed once all it holds was given back. Takes NULL. */
void budget_close(budget_share *share);

/* Whose connection it is: all shares of one principal hold at most half of the budget
 * together. The name is copied; NULL: nobody's. The last one counts. Out of memory it
 * stays as it was. */
void budget_set_principal(budget_share *share, const char *principal);

/* Whose it is; the budget's, until it is another's. NULL: nobody's. */
const char *budget_principal(const budget_share *share);

/* Holds bytes. False, holding nothing: it would be more than its part. */
bool budget_take(budget_share *share, size_t bytes);

/* Holds bytes that are there already, whatever the part. */
void budget_force(budget_share *share, size_t bytes);

/* Gives bytes back that were taken or forced; of none, the share need not be there any more. */
void budget_give(budget_share *share, size_t bytes);

/* Bytes that the share holds. */
size_t budget_share_held(const budget_share *share);

#endif
