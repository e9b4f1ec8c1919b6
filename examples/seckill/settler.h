/* A worker that settles orders behind the sale: it follows the ledger of a group and writes each order into a book, a
 * file with a line each. It is a process of its own (child.h), to be killed in the middle of an order.
 *
 *   parent                     settler
 *          <-- at POINT        the order that it was started to stop in is there; nothing more is done
 *          <-- ORDER HOW       it is done with an order */
#ifndef SECKILL_SETTLER_H
#define SECKILL_SETTLER_H

#define SETTLER_FLAG "--settle" /* followed by URLS GROUP BOOK WAY POINT ORDER */

/* The ways: by lks_once; by hand with the place in the ledger noted after the order was booked, or before. */
#define SETTLER_ONCE "once"
#define SETTLER_BOOKS_FIRST "books-first"
#define SETTLER_NOTES_FIRST "notes-first"

/* The points. */
#define SETTLER_BEGUN "begun"   /* before anything is written; by hand: the place was noted, if it is noted first */
#define SETTLER_BOOKED "booked" /* written into the book, and nothing else knows it */
#define SETTLER_STORED "stored" /* by lks_once: the result is stored, and the ledger has the order still */

/* How it was done with an order. */
#define SETTLER_DID_BOOK "booked"            /* by the first attempt, or by hand */
#define SETTLER_DID_BOOK_AGAIN "booked-late" /* by a further attempt: none before had booked it */
#define SETTLER_DID_FIND "found"             /* by a further attempt: it stood in the book */
#define SETTLER_DID_NOTHING "replayed"       /* another attempt had stored its result */

/* What the settler does; argv[1] is SETTLER_FLAG. Returns an exit status. */
int settler_main(int argc, char **argv);

#endif
