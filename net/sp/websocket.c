/* Invariant: a frame's length is checked against the rest of the message's limit before its first byte is given out.
 * Called by sp.c. */
#include "net/sp/websocket.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum {
    REQUEST_ROOM_MIN = 512,
    HEAD_BYTES_MAX = 14, /* with the mask */
    FINAL = 0x80,
    RESERVED = 0x70,
    CONTROL = 0x08,
    MASKED = 0x80,
    LENGTH = 0x7F,
    LENGTH_16 = 126,
    LENGTH_64 = 127,
};

typedef enum opcode { CONTINUED = 0, TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10 } opcode;

typedef enum websocket_state { REQUEST, OPEN, OVER } websocket_state; /* as drawn in websocket.h */

struct websocket {
    const websocket_site *site;
    size_t message_bytes_max;
    websocket_state state;
    char *request; /* in the state REQUEST */
    size_t request_len, request_room;
    uint8_t head[HEAD_BYTES_MAX]; /* of the current frame */
    size_t head_len;
    bool in_frame; /* its head is whole */
    size_t left;   /* bytes of it to come */
    uint8_t key[4];
    bool in_message;
    size_t announced; /* bytes of the message */
    unsigned n_empty; /* frames of it */
    uint8_t control[WEBSOCKET_CONTROL_BYTES_MAX];
    size_t control_len;
    /* output */
    bool answers, pongs, closes;
    websocket_verdict verdict;
    uint8_t pong[WEBSOCKET_CONTROL_BYTES_MAX];
    size_t pong_len;
    unsigned close_code; /* 0: none, as in the peer's frame */
};

websocket *websocket_new(const websocket_site *site, size_t message_bytes_max)
{
    websocket *w = malloc(sizeof *w);

    if (w)
        *w = (websocket){.site = site, .message_bytes_max = message_bytes_max};
    return w;
}

void websocket_free(websocket *w)
{
    if (w)
        free(w->request);
    free(w);
}

/* ---- the request ------------------------------------------------------------------ */

static void free_request(websocket *w)
{
    free(w->request);
    w->request = NULL;
    w->request_len = w->request_room = 0;
}

static websocket_event answer(websocket *w, websocket_verdict verdict)
{
    free_request(w);
    w->verdict = verdict;
    w->answers = true;
    w->state = verdict.status == 101 ? OPEN : OVER;
    return w->state == OPEN ? WEBSOCKET_OPENED : WEBSOCKET_OVER;
}

static bool keep_request(websocket *w, const uint8_t *data, size_t len)
{
    size_t room = 2 * (w->request_len + len) > REQUEST_ROOM_MIN ? 2 * (w->request_len + len) : REQUEST_ROOM_MIN;

    if (w->request_room - w->request_len < len) {
        char *grown = realloc(w->request, room);
        if (!grown)
            return false;
        w->request = grown;
        w->request_room = room;
    }
    memcpy(w->request + w->request_len, data, len);
    w->request_len += len;
    return true;
}

/* How many of the bytes belong to the request, up to the empty line, which may begin in the bytes kept before. */
static size_t request_bytes(const websocket *w, const uint8_t *data, size_t len, bool *whole)
{
    static const char end[] = "\r\n\r\n";
    size_t before = w->request_len < 3 ? w->request_len : 3;
    char around[3 + 3];
    size_t n = len < 3 ? len : 3;

    *whole = true;
    if (before > 0)
        memcpy(around, w->request + w->request_len - before, before);
    memcpy(around + before, data, n);
    const char *found = memmem(around, before + n, end, 4);
    if (found)
        return (size_t)(found - around) + 4 - before;
    const uint8_t *inside = memmem(data, len, end, 4);
    if (inside)
        return (size_t)(inside - data) + 4;
    *whole = false;
    return len;
}

static websocket_event read_request(websocket *w, const uint8_t *data, size_t len, size_t *taken)
{
    static const char get[] = {'G', 'E', 'T', ' '};
    bool whole;

    *taken = request_bytes(w, data, len, &whole);
    if (w->request_len + *taken > WEBSOCKET_REQUEST_BYTES_MAX)
        return answer(w, (websocket_verdict){.status = 431, .why = "the request is too long"});
    if (!keep_request(w, data, *taken))
        return WEBSOCKET_NO_MEMORY;
    if (memcmp(w->request, get, w->request_len < sizeof get ? w->request_len : sizeof get) != 0)
        return answer(w, (websocket_verdict){.status = 405, .why = "the method must be GET"});
    return whole ? answer(w, websocket_request_check(w->site, w->request, w->request_len)) : WEBSOCKET_MORE;
}

/* ---- frames ----------------------------------------------------------------------- */

static websocket_event close_with(websocket *w, unsigned code)
{
    w->state = OVER;
    w->closes = true;
    w->close_code = code;
    return WEBSOCKET_OVER;
}

void websocket_fail(websocket *w, unsigned code)
{
    if (w->state != OVER)
        close_with(w, code);
}

static opcode opcode_of(const websocket *w)
{
    return w->head[0] & 0x0F;
}

static bool is_final(const websocket *w)
{
    return w->head[0] & FINAL;
}

/* The close code for an error in the first two bytes of a frame; 0: none. */
static unsigned fault_of(const websocket *w)
{
    opcode code = opcode_of(w);

    if ((w->head[0] & RESERVED) || !(w->head[1] & MASKED))
        return WEBSOCKET_WRONG;
    if (code & CONTROL)
        return code > PONG || !is_final(w) || (w->head[1] & LENGTH) > WEBSOCKET_CONTROL_BYTES_MAX ? WEBSOCKET_WRONG : 0;
    if (code > BINARY || (code == CONTINUED) != w->in_message)
        return WEBSOCKET_WRONG;
    return code == TEXT ? WEBSOCKET_NOT_BINARY : 0;
}

/* The length of the head, which is known after two bytes. */
static size_t head_wanted(const websocket *w)
{
    size_t wanted = 2;

    if (w->head_len < 2)
        return wanted;
    if ((w->head[1] & LENGTH) == LENGTH_16)
        wanted += sizeof(uint16_t);
    if ((w->head[1] & LENGTH) == LENGTH_64)
        wanted += sizeof(uint64_t);
    return wanted + sizeof w->key;
}

/* False: the length is not in its shortest form. */
static bool read_length(const websocket *w, uint64_t *len)
{
    uint16_t short_len;

    *len = w->head[1] & LENGTH;
    if (*len == LENGTH_16) {
        memcpy(&short_len, w->head + 2, sizeof short_len);
        *len = be16toh(short_len);
        return *len >= LENGTH_16;
    }
    if (*len == LENGTH_64) {
        memcpy(len, w->head + 2, sizeof *len);
        *len = be64toh(*len);
        return *len > UINT16_MAX;
    }
    return true;
}

/* The head is complete. */
static websocket_event begin_frame(websocket *w)
{
    uint64_t len;

    if (!read_length(w, &len))
        return close_with(w, WEBSOCKET_WRONG);
    memcpy(w->key, w->head + w->head_len - sizeof w->key, sizeof w->key);
    w->head_len = 0;
    if (!(opcode_of(w) & CONTROL)) {
        w->announced = w->in_message ? w->announced : 0;
        w->n_empty = (w->in_message ? w->n_empty : 0) + (len == 0);
        if (len > w->message_bytes_max - w->announced)
            return close_with(w, WEBSOCKET_TOO_LONG);
        if (w->n_empty > WEBSOCKET_EMPTY_MAX)
            return close_with(w, WEBSOCKET_NO_PROGRESS);
        w->announced += (size_t)len;
        w->in_message = true;
    }
    w->in_frame = true;
    w->left = (size_t)len;
    return WEBSOCKET_MORE;
}

static websocket_event read_head(websocket *w, const uint8_t *data, size_t len, size_t *taken)
{
    size_t wanted = head_wanted(w);
    unsigned fault;

    *taken = wanted - w->head_len < len ? wanted - w->head_len : len;
    memcpy(w->head + w->head_len, data, *taken);
    w->head_len += *taken;
    if (w->head_len == 2 && (fault = fault_of(w)) != 0)
        return close_with(w, fault);
    return w->head_len > 2 && w->head_len == wanted ? begin_frame(w) : WEBSOCKET_MORE;
}

/* Returns the next bytes of the frame as a piece. */
static void take_piece(websocket *w, const uint8_t *data, size_t len, websocket_piece *piece)
{
    *piece = (websocket_piece){.bytes = data, .len = w->left < len ? w->left : len};
    for (size_t i = 0; i < sizeof w->key; i++)
        piece->key[i] = w->key[i];
    for (size_t i = 0; i < sizeof w->key; i++)
        w->key[i] = piece->key[(i + piece->len) % sizeof w->key];
    w->left -= piece->len;
    w->in_frame = w->left > 0;
}

void websocket_unmask(const websocket_piece *piece, uint8_t *to)
{
    uint8_t twice[8];
    uint64_t key, word;
    size_t i = 0;

    memcpy(twice, piece->key, 4);
    memcpy(twice + 4, piece->key, 4);
    memcpy(&key, twice, sizeof key);
    for (; piece->len - i >= sizeof word; i += sizeof word) {
        memcpy(&word, piece->bytes + i, sizeof word);
        word ^= key;
        memcpy(to + i, &word, sizeof word);
    }
    for (; i < piece->len; i++)
        to[i] = piece->bytes[i] ^ piece->key[i % 4];
}

/* Whether RFC 6455 and its registry allow a peer to send the code. */
static bool is_close_code(unsigned code)
{
    return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
           (code >= 3000 && code <= 4999);
}

/* The peer closes. It gets its own code back; the text is ignored. */
static websocket_event read_close(websocket *w)
{
    unsigned code = w->control_len >= 2 ? (unsigned)w->control[0] << 8 | w->control[1] : 0;

    if (w->control_len > 0 && !is_close_code(code))
        return close_with(w, WEBSOCKET_WRONG);
    return close_with(w, code);
}

static websocket_event read_control(websocket *w, const websocket_piece *piece)
{
    websocket_unmask(piece, w->control + w->control_len);
    w->control_len += piece->len;
    if (w->in_frame)
        return WEBSOCKET_MORE;
    websocket_event event = WEBSOCKET_MORE;
    if (opcode_of(w) == CLOSE)
        event = read_close(w);
    if (opcode_of(w) == PING) {
        w->pongs = true;
        memcpy(w->pong, w->control, w->control_len);
        w->pong_len = w->control_len;
    }
    w->control_len = 0;
    return event;
}

static websocket_event read_data(websocket *w, websocket_piece *piece)
{
    piece->announced = w->announced;
    piece->last = !w->in_frame && is_final(w);
    w->in_message = !piece->last;
    return piece->len > 0 || piece->last ? WEBSOCKET_PIECE : WEBSOCKET_MORE;
}

static websocket_event read_some(websocket *w, const uint8_t *data, size_t len, size_t *taken, websocket_piece *piece)
{
    if (w->state == REQUEST)
        return read_request(w, data, len, taken);
    *taken = 0;
    if (!w->in_frame) {
        websocket_event event = read_head(w, data, len, taken);
        /* A frame without bytes ends with its head. */
        if (event != WEBSOCKET_MORE || !w->in_frame || w->left > 0)
            return event;
    }
    take_piece(w, data + *taken, len - *taken, piece);
    *taken += piece->len;
    return opcode_of(w) & CONTROL ? read_control(w, piece) : read_data(w, piece);
}

websocket_event websocket_read(websocket *w, const uint8_t *data, size_t len, size_t *taken, websocket_piece *piece)
{
    websocket_event event = w->state == OVER ? WEBSOCKET_OVER : WEBSOCKET_MORE;

    *taken = 0;
    while (*taken < len && event == WEBSOCKET_MORE) {
        size_t n;
        event = read_some(w, data + *taken, len - *taken, &n, piece);
        *taken += n;
    }
    return event;
}

/* ---- output ----------------------------------------------------------------------- */

static size_t write_control(opcode code, const uint8_t *payload, size_t len, uint8_t *out)
{
    out[0] = (uint8_t)(FINAL | code);
    out[1] = (uint8_t)len;
    memcpy(out + 2, payload, len);
    return 2 + len;
}

size_t websocket_output(websocket *w, uint8_t out[WEBSOCKET_OUTPUT_BYTES_MAX])
{
    const uint8_t code[2] = {(uint8_t)(w->close_code >> 8), (uint8_t)w->close_code};
    size_t len = 0;

    if (w->answers)
        len += websocket_answer(w->site, &w->verdict, (char *)out);
    if (w->pongs)
        len += write_control(PONG, w->pong, w->pong_len, out + len);
    if (w->closes)
        len += write_control(CLOSE, code, w->close_code ? sizeof code : 0, out + len);
    w->answers = w->pongs = w->closes = false;
    return len;
}

size_t websocket_write_header(bool first, bool last, size_t len, uint8_t out[WEBSOCKET_HEADER_BYTES_MAX])
{
    uint16_t short_len = htobe16((uint16_t)len);
    uint64_t long_len = htobe64(len);

    out[0] = (uint8_t)((last ? FINAL : 0) | (first ? BINARY : CONTINUED));
    if (len < LENGTH_16) {
        out[1] = (uint8_t)len;
        return 2;
    }
    if (len <= UINT16_MAX) {
        out[1] = LENGTH_16;
        memcpy(out + 2, &short_len, sizeof short_len);
        return 2 + sizeof short_len;
    }
    out[1] = LENGTH_64;
    memcpy(out + 2, &long_len, sizeof long_len);
    return 2 + sizeof long_len;
}
