/* Writes the seed corpora that are made: `fuzz_seeds tests/fuzz/corpus`. Run by hand when
 * an input's form or the contract changes; its output is in the tree. */
#include <endian.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "seeds.h"
#include "services/service.h"

static const char *root; /* of the corpora */

void seed_put(seed *s, const void *data, size_t len)
{
    fuzz_expect(s->len + len <= sizeof s->data);
    memcpy(s->data + s->len, data, len);
    s->len += len;
}

void seed_byte(seed *s, unsigned byte)
{
    seed_put(s, &(uint8_t){(uint8_t)byte}, 1);
}

void seed_save(const seed *s, const char *target, const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", root, target);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", root, target, name);
    FILE *file = fopen(path, "wb");
    fuzz_expect(file && fwrite(s->data, 1, s->len, file) == s->len);
    fuzz_expect(fclose(file) == 0);
}

/* ---- fuzz_sp ------------------------------------------------------------------------ */

static void put_sp(seed *s, bool unix_mapping, size_t hops, size_t frame_len)
{
    uint64_t length = htobe64((hops + 1) * 4 + frame_len);

    if (unix_mapping)
        seed_byte(s, 1);
    seed_put(s, &length, 8);
    for (unsigned i = 0; i <= hops; i++)
        seed_put(s, &(uint8_t[]){i == hops ? 0x80 : 0, 0, 1, (uint8_t)i}, 4);
    for (size_t i = 0; i < frame_len; i++)
        seed_byte(s, (unsigned)i);
}

static seed sp_begin(bool of_client, bool unix_mapping, unsigned limit, unsigned piece, unsigned enough)
{
    seed s = {.len = 0};

    seed_byte(&s, (unix_mapping ? 1 : 0) | limit << 1 | (of_client ? 8 : 0));
    seed_byte(&s, 2);
    seed_byte(&s, piece);
    seed_byte(&s, piece / 2 + 1);
    seed_byte(&s, enough);
    seed_put(&s, of_client ? "\0SP\0\0\x31\0\0" : "\0SP\0\0\x30\0\0", 8);
    return s;
}

static void make_sp(void)
{
    for (unsigned is_unix = 0; is_unix < 2; is_unix++) {
        const char *mapping = is_unix ? "unix" : "tcp";
        char name[64];
        seed s = sp_begin(false, is_unix, 2, 0, 0);
        put_sp(&s, is_unix, 0, 20);
        snprintf(name, sizeof name, "%s_request", mapping);
        seed_save(&s, "fuzz_sp", name);

        s = sp_begin(false, is_unix, 1, 3, 0x55);
        for (size_t hops = 0; hops <= 8U; hops++)
            put_sp(&s, is_unix, hops, hops * 11);
        snprintf(name, sizeof name, "%s_hops_and_enough", mapping);
        seed_save(&s, "fuzz_sp", name);

        s = sp_begin(false, is_unix, 1, 1, 0xFF);
        put_sp(&s, is_unix, 0, 100);
        put_sp(&s, is_unix, 0, 101);
        snprintf(name, sizeof name, "%s_limit", mapping);
        seed_save(&s, "fuzz_sp", name);

        s = sp_begin(false, is_unix, 3, 200, 0);
        put_sp(&s, is_unix, 1, 3000);
        s.len -= 100;
        snprintf(name, sizeof name, "%s_not_whole", mapping);
        seed_save(&s, "fuzz_sp", name);

        s = sp_begin(false, is_unix, 2, 9, 0);
        put_sp(&s, is_unix, 8U + 1, 5);
        snprintf(name, sizeof name, "%s_too_many_hops", mapping);
        seed_save(&s, "fuzz_sp", name);

        s = sp_begin(true, is_unix, 1, 7, 0x11);
        for (size_t len = 20; len <= 101; len += 27)
            put_sp(&s, is_unix, 0, len);
        snprintf(name, sizeof name, "%s_replies", mapping);
        seed_save(&s, "fuzz_sp", name);
    }
    seed other = {.len = 0};
    seed_put(&other, "\0\1\0\0\0SP\0\0\x50\0\0", 12); /* a SUB socket */
    seed_save(&other, "fuzz_sp", "not_req");
}

/* Steps of fuzz_sp_server: op, argument. */
static void make_sp_server(void)
{
    static const struct {
        const char *name, *steps;
        size_t len;
    } made[] = {
        {"echo", "\0\0\1\2\0", 5},
        {"pipelined", "\4\0\340\0\345\3\0\3\1\2\0\3\0\4\1", 15},
        {"pieces", "\5\60\174\60\34\3\0\3\0\2\0", 11},
        {"no_frame", "\0\0\2\0\0", 5},
        {"hang_up_parked", "\10\0\340\4\300\4\301", 7},
        {"refusing", "\4\0\0\5\377\0\101\3\0\2\0", 11},
        {"gone", "\24\0\340\3\1", 5},
        {"any", "\2\1\10\0\0\0\0\0\0\0\5\1\5\200\0\0\1x\2\0", 20},
        {"any_unix", "\3\1\17\1\0\0\0\0\0\0\0\6\200\0\0\1px\3\0", 20},
    };

    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        seed s = {.len = 0};
        seed_put(&s, made[i].steps, made[i].len);
        seed_save(&s, "fuzz_sp_server", made[i].name);
    }
}

/* ---- fuzz_websocket ----------------------------------------------------------------- */

static void put_ws(seed *s, unsigned first, const void *payload, size_t len)
{
    static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};
    const uint8_t *from = payload;

    seed_byte(s, first);
    seed_byte(s, 0x80U | (len < 126 ? (unsigned)len : 126U));
    if (len >= 126)
        seed_put(s, &(uint16_t){htobe16((uint16_t)len)}, 2);
    seed_put(s, mask, sizeof mask);
    for (size_t i = 0; i < len; i++)
        seed_byte(s, from[i] ^ mask[i % 4]);
}

/* flags, one size of pieces */
static seed ws_begin(unsigned flags, unsigned piece)
{
    seed s = {.len = 0};

    seed_byte(&s, flags);
    seed_byte(&s, 1);
    seed_byte(&s, piece);
    return s;
}

static void make_websocket(void)
{
    static const struct {
        const char *name, *request;
    } requests[] = {
        {"request", "GET / HTTP/1.1\r\nHost: h\r\nOrigin: http://a\r\nUpgrade: a, websocket\r\nConnection: Upgrade\r\n"
                    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                    "Sec-WebSocket-Protocol: o, p\r\n\r\n"},
        {"other_origin", "GET / HTTP/1.1\r\nHost: h\r\nOrigin: http://b\r\n\r\n"},
        {"other_version", "GET /?x HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"},
        {"no_http", "GET / HTTP/1.1\r\nHost\r\n\r\n"},
        {"post", "POST / HTTP/1.1\r\n"},
    };
    static const uint8_t message[] = {0, 0, 0, 1, 0x80, 0, 0, 2, 'f', 'r', 'a', 'm', 'e'};
    static uint8_t long_message[300] = {0x80};

    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        seed s = ws_begin(4, (unsigned)i * 7 + 1);
        seed_put(&s, requests[i].request, strlen(requests[i].request));
        if (i == 0)
            put_ws(&s, 0x82, message, sizeof message);
        seed_save(&s, "fuzz_websocket", requests[i].name);
    }
    seed s = ws_begin(5, 1);
    put_ws(&s, 0x02, message, 3);
    put_ws(&s, 0x89, "ping", 4);
    put_ws(&s, 0x00, "", 0);
    put_ws(&s, 0x80, message + 3, sizeof message - 3);
    put_ws(&s, 0x82, message, sizeof message);
    seed_save(&s, "fuzz_websocket", "fragments");

    s = ws_begin(5, 60);
    for (size_t i = 0; i < 5; i++)
        put_ws(&s, 0x82, i % 2 ? long_message : message, i % 2 ? sizeof long_message : sizeof message);
    put_ws(&s, 0x88, "\3\350bye", 5);
    seed_save(&s, "fuzz_websocket", "messages_and_close");

    s = ws_begin(1, 9);
    put_ws(&s, 0x02, message, sizeof message);
    put_ws(&s, 0x80, long_message, 30);
    seed_save(&s, "fuzz_websocket", "limit");

    s = ws_begin(7, 0);
    put_ws(&s, 0x82, message, sizeof message);
    seed_put(&s, "\x82\xff\0\0\0\0\0\1\x86\xa0\1\2\3\4", 14);
    seed_put(&s, long_message, sizeof long_message);
    seed_save(&s, "fuzz_websocket", "not_whole");

    s = ws_begin(5, 2);
    for (unsigned i = 0; i < 66; i++)
        put_ws(&s, i == 0 ? 0x02 : 0x00, "", 0);
    seed_save(&s, "fuzz_websocket", "no_progress");

    s = ws_begin(5, 5);
    put_ws(&s, 0x82, message, 2);
    seed_save(&s, "fuzz_websocket", "no_request");
}

/* ---- fuzz_requests ------------------------------------------------------------------ */

enum { VARIANTS = 4, VARIANT_NAMELESS = 3 };

static void *member(ProtobufCMessage *m, size_t offset)
{
    return (char *)m + offset;
}

/* What the field's name asks for; of the second element something else. */
static const char *text_for(const char *field, unsigned variant, size_t element)
{
    char text[64];

    if (strstr(field, "page_token") || (strcmp(field, "name") == 0 && variant == VARIANT_NAMELESS))
        return "";
    if (strcmp(field, "up_to") == 0 || strcmp(field, "after") == 0)
        return "1-1";
    snprintf(text, sizeof text, "%s%zu%s", field, element,
             strstr(field, "token") || strstr(field, "_id") || strcmp(field, "ticket") == 0 ? "-0123456789abcdef" : "");
    return strdup(text);
}

static int64_t number_for(const char *field, unsigned variant)
{
    if (strcmp(field, "burst") == 0 || strcmp(field, "permits") == 0 || strcmp(field, "capacity") == 0)
        return variant;
    if (strstr(field, "_retain_ms"))
        return 60000;
    return strcmp(field, "closes_in_ms") == 0 ? 9000 : strstr(field, "_ms") ? 5000 : 1;
}

static ProtobufCMessage *filled_nth(const ProtobufCMessageDescriptor *type, unsigned variant, unsigned depth,
                                    size_t element);

static void fill_value(const ProtobufCFieldDescriptor *f, void *value, unsigned variant, unsigned depth, size_t element)
{
    const ProtobufCEnumDescriptor *e = f->descriptor;

    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
        *(char **)value = (char *)(uintptr_t)text_for(f->name, variant, element);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        *(ProtobufCBinaryData *)value = (ProtobufCBinaryData){.len = 4, .data = (uint8_t *)(uintptr_t) "data"};
        break;
    case PROTOBUF_C_TYPE_ENUM:
        *(int32_t *)value = e->values[1 + variant % (e->n_values - 1)].value;
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        *(ProtobufCMessage **)value = filled_nth(f->descriptor, variant, depth + 1, element);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)value = variant & 1;
        break;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_UINT32:
        *(int32_t *)value = 1;
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)value = 1;
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        *(float *)value = 1;
        break;
    default:
        *(int64_t *)value = number_for(f->name, variant);
    }
}

/* A message with all its fields set; variants differ in enums, and in whether there are
 * several elements. Never freed: the program ends soon. */
static ProtobufCMessage *filled_nth(const ProtobufCMessageDescriptor *type, unsigned variant, unsigned depth,
                                    size_t element)
{
    ProtobufCMessage *m = calloc(1, type->sizeof_message);

    fuzz_expect(m);
    type->message_init(m);
    for (unsigned i = 0; i < type->n_fields && depth < 4; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n = 1 + variant % 2;
            char *elements = calloc(n, 16);
            size_t size = f->type == PROTOBUF_C_TYPE_INT32 || f->type == PROTOBUF_C_TYPE_ENUM ? 4 : 8;
            for (size_t e = 0; e < n; e++)
                fill_value(f, elements + e * size, variant, depth, n == 1 ? element : e);
            *(size_t *)member(m, f->quantifier_offset) = n;
            *(char **)member(m, f->offset) = elements;
            continue;
        }
        if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
            *(uint32_t *)member(m, f->quantifier_offset) = f->id;
        else if (f->quantifier_offset && f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_MESSAGE)
            *(protobuf_c_boolean *)member(m, f->quantifier_offset) = 1;
        fill_value(f, member(m, f->offset), variant, depth, element);
    }
    return m;
}

static void make_requests(void)
{
    char name[128];

    for (unsigned s = 0; s < SERVICES; s++) {
        for (unsigned m = 0; m < all_services[s]->n_methods; m++) {
            const lks_rpc_method *method = all_services[s]->methods[m].method;
            for (unsigned variant = 0; variant < VARIANTS; variant++) {
                seed one = {.len = 0};
                seed_put(&one, &(uint8_t[]){(uint8_t)s, (uint8_t)m, variant % 2 ? 3 : 0}, 3);
                seed_put(&one, "a/b", variant % 2 ? 3 : 0);
                const ProtobufCMessage *request = filled_nth(method->request, variant, 0, 0);
                uint8_t packed[2048];
                fuzz_expect(protobuf_c_message_get_packed_size(request) <= sizeof packed);
                seed_put(&one, packed, protobuf_c_message_pack(request, packed));
                snprintf(name, sizeof name, "%s_%u", strrchr(method->path, '/') + 1, variant);
                char file[160];
                snprintf(file, sizeof file, "%u_%s", s, name);
                seed_save(&one, "fuzz_requests", file);
            }
        }
    }
}

static void make_texts(void)
{
    static const char *const texts[] = {"100m",           "99999999H",       "0n", "lines[0].sku: must not be empty",
                                        "no: field here", "\xC3\xA4 100%\n", ""};

    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        seed s = {.len = 0};
        char name[8];
        seed_put(&s, (uint8_t[]){2, 0, 0, (uint8_t)(i % 2 ? 4 : 0), (uint8_t)(i % 2)}, 5);
        seed_put(&s, texts[i], strlen(texts[i]));
        snprintf(name, sizeof name, "text_%u", i);
        seed_save(&s, "fuzz_grpc_text", name);
    }
}

/* ---- fuzz_http ------------------------------------------------------------------------ */

#define HTTP_ITEM "POST /lockstock.v1.StockService/GetItem HTTP/1.1\r\nHost: localhost\r\n"
#define HTTP_JSON HTTP_ITEM "Content-Type: application/json\r\n"

static void make_http(void)
{
    static const struct {
        const char *name, *bytes;
    } made[] = {
        {"json", HTTP_JSON "Content-Length: 13\r\n\r\n{\"sku\":\"pen\"}" HTTP_JSON "Content-Length: 2\r\n\r\n{}"},
        {"chunks",
         HTTP_JSON "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n1\r\n{\r\n01\r\n}\r\n0\r\n\r\n"},
        {"get",
         "GET /lockstock.v1.StockService/GetItem?encoding=json&message=%7B%7D&x=+ HTTP/1.1\r\nHost: localhost\r\n\r\n"
         "GET /lockstock.v1.StockService/GetItem?base64=1&encoding=proto&message=EgNwZW4&connect=v1 HTTP/1.0\r\n\r\n"},
        {"web", HTTP_ITEM
         "Content-Type: application/grpc-web-text\r\nContent-Length: 16\r\ngrpc-timeout: 1S\r\n\r\nAAAAAAUSA3Blbg=="},
        {"page", HTTP_JSON "Origin: https://shop.example\r\nContent-Length: 2\r\n\r\n{}"
                           "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: https://shop.example\r\n\r\n"},
        {"refused", HTTP_JSON "Content-Length: 9\r\nContent-Encoding: br\r\n\r\nabc"},
        {"not_http", HTTP_JSON "A : b\r\n\r\n"},
    };
    for (unsigned i = 0; i < sizeof made / sizeof *made; i++) {
        seed s = {.len = 0};
        seed_byte(&s, i % 8 | 4);
        seed_byte(&s, i * 5);
        seed_put(&s, made[i].bytes, strlen(made[i].bytes));
        seed_save(&s, "fuzz_http", made[i].name);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    root = argv[1];
    make_sp();
    make_sp_server();
    make_websocket();
    make_http();
    make_requests();
    make_texts();
    seeds_grpc();
    seeds_tls();
    return 0;
}
