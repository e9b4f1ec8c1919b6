#include "host/peer.h"

#include <stdlib.h>
#include <string.h>

peer *peer_ref(peer *p)
{
    atomic_fetch_add(&p->references, 1);
    return p;
}

void peer_unref(peer *p)
{
    if (p && atomic_fetch_sub(&p->references, 1) == 1)
        free(p);
}

static const char *put_text(char **to, const char *text)
{
    char *at = *to;
    size_t bytes = strlen(text) + 1;

    *to += bytes;
    return memcpy(at, text, bytes);
}

peer *peer_new(const lks_rpc_peer *from)
{
    const char *wire = from->wire ? from->wire : "?", *address = from->address ? from->address : "?";
    size_t bytes = strlen(wire) + 1 + strlen(address) + 1, n = from->n_names;

    for (size_t i = 0; i < n; i++)
        bytes += strlen(from->names[i].text) + 1;
    peer *p = malloc(sizeof *p + n * sizeof *p->names + bytes);
    if (!p)
        return NULL;
    char *text = (char *)(p->names + n);
    *p = (peer){.references = 1, .is = *from};
    p->is.wire = put_text(&text, wire);
    p->is.address = put_text(&text, address);
    p->is.names = p->names;
    for (size_t i = 0; i < n; i++)
        p->names[i] = (lks_rpc_name){from->names[i].kind, put_text(&text, from->names[i].text)};
    return p;
}
