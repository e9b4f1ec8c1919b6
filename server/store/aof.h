/* The tail of an embedded redis-server's append-only file. */
#ifndef LOCKSTOCK_SERVER_STORE_AOF_H
#define LOCKSTOCK_SERVER_STORE_AOF_H

#include <stdbool.h>
#include <sys/types.h>

#include <lockstock/status.h>

/* Bytes of a file between two words about it, less than a tenth of a second. */
enum { AOF_PROGRESS_BYTES = 16 * 1024 * 1024 };

enum { AOF_NAME_BYTES = 256 };

/* How far a file was read. False: to stop. */
typedef bool aof_progress(void *arg, off_t done, off_t size);

/* What was done to a file. */
typedef struct aof_mended {
    off_t cut;                 /* bytes taken from its end, mostly 0 */
    char kept[AOF_NAME_BYTES]; /* the file in DIR that has them, but for zeros at their end; "" = they were all zeros */
} aof_mended;

/* Cuts what DIR's append-only file ends with back to its last whole transaction:
 * to be called while no redis-server runs there, before one is started. What is cut is kept in a file of its own in
 * DIR. Reads the file once, 200 MB a second or so; `progress` (NULL: none) is called by the same thread.
 * `has_served`: a store was served from DIR before, so there must be such a file.
 * LKS_FAILED_PRECONDITION: the file is damaged elsewhere than at its end, or its manifest is missing;
 * LKS_CANCELLED: it was stopped; LKS_UNAVAILABLE: a file cannot be read or written. With all of them nothing was
 * changed; messages name files as seen from DIR. Any thread. */
lks_code aof_mend(const char *dir, bool has_served, aof_progress *progress, void *arg, aof_mended *ret,
                  lks_error *error);

#endif
