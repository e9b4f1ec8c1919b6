/* Redis Cluster's slots: the slot of a key, and which node has it. Pure. */
#ifndef LOCKSTOCK_SERVER_STORE_SLOTS_H
#define LOCKSTOCK_SERVER_STORE_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>

enum { SLOTS = 16384, SLOTS_ID_BYTES = 41, SLOTS_HOST_BYTES = 256, SLOTS_TAG_BYTES = 12, SLOTS_NOBODY = UINT16_MAX };

/* Redis advises at most 1,000. */
enum { SLOTS_NODES_MAX = 4096 };

/* Returns the slot of a key: of the text between its first { and the next }, if any, otherwise of the whole key. */
uint16_t slots_of(lks_rpc_slice key);

/* Writes a text without braces that is in this slot, for keys "ls:{<tag>}:...". */
void slots_tag(uint16_t slot, char tag[SLOTS_TAG_BYTES]);

/* A node as another one sees it. */
typedef struct slots_node {
    char id[SLOTS_ID_BYTES];
    char host[SLOTS_HOST_BYTES]; /* "" = not known */
    uint16_t port;
    bool failed;    /* most nodes agree that it failed */
    uint64_t epoch; /* of a primary's claim to its slots; the highest counts */
} slots_node;

/* One node's reply. */
typedef struct slots_map {
    uint16_t owner[SLOTS]; /* an index in `node`, or SLOTS_NOBODY */
    size_t n;
    slots_node *node;
} slots_map;

/* Reads the reply to CLUSTER NODES; `asked` is the host of the node, which may not know its own address. Returns
 * false, with nothing to free, if it is another text or has more than SLOTS_NODES_MAX lines. */
bool slots_read(slots_map *ret, const char *text, size_t len, const char *asked);
void slots_clear(slots_map *map);

/* Reads an error reply "ASK <slot> ..."; returns false for another reply. */
bool slots_read_ask(const char *text, size_t len, uint16_t *slot);

/* Reads an error reply "MOVED <slot> <host>:<port>"; returns false for another reply. An empty host, "", is the host of
 * the asked node. */
bool slots_read_moved(const char *text, size_t len, uint16_t *slot, char host[SLOTS_HOST_BYTES], uint16_t *port);

#endif
