/* Repairs the end of an embedded redis-server's append-only file. */
#ifndef LOCKSTOCK_SERVER_STORE_AOF_H
#define LOCKSTOCK_SERVER_STORE_AOF_H

#include <stdbool.h>
#include <sys/types.h>

#include <lockstock/status.h>

/* Bytes between two calls of aof_progress, less than a tenth of a second. */
enum { AOF_PROGRESS_BYTES = 16 * 1024 * 1024 };

enum { AOF_NAME_BYTES = 256 };

/* `done` of `size` bytes were read. Returns false to stop. */
typedef bool aof_progress(void *arg, off_t done, off_t size);

typedef struct aof_repaired {
    off_t cut;                 /* bytes removed from the file's end, mostly 0 */
    char kept[AOF_NAME_BYTES]; /* the file in DIR with these bytes, without zeros at their end; "" = all were zeros */
} aof_repaired;

/* Cuts DIR's append-only file after its last whole transaction, while no redis-server runs there. Keeps the cut bytes
 * in a separate file in DIR. Reads the file once, about 200 MB a second; the same thread calls `progress` (NULL: none).
 * `has_served`: a store was served from DIR before, so the file must exist. LKS_FAILED_PRECONDITION: the file is
 * damaged elsewhere than at its end, or its manifest is missing; LKS_CANCELLED: `progress` returned false;
 * LKS_UNAVAILABLE: a file cannot be read or written. An error changes nothing; messages name files relative to DIR. Any
 * thread. */
lks_code aof_repair(const char *dir, bool has_served, aof_progress *progress, void *arg, aof_repaired *ret,
                    lks_error *error);

#endif
