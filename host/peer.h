/* A connection's peer, which may outlive the connection while its calls run. */
#ifndef HOST_PEER_H
#define HOST_PEER_H

#include <stdatomic.h>

#include <lockstock/rpc/service.h>

/* The texts of `is` are stored behind the names. */
typedef struct peer {
    atomic_uint references;
    lks_rpc_peer is;
    lks_rpc_name names[];
} peer;

/* A copy, with one reference. NULL: no memory. */
peer *peer_new(const lks_rpc_peer *from);

peer *peer_ref(peer *p);

/* Any thread. Takes NULL. */
void peer_unref(peer *p);

#endif
