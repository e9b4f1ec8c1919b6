/* Why a text is not JSON, in jansson's words without the text that it quotes: "duplicate object key". */
#ifndef RPC_JSON_NOT_JSON_H
#define RPC_JSON_NOT_JSON_H

#include <string.h>

#include <jansson.h>

/* Arguments of "%.*s". */
#define NOT_JSON_WHY(error) not_json_len(error), (error)->text

static inline int not_json_len(const json_error_t *error)
{
    const char *quoted = strstr(error->text, " near ");

    return quoted ? (int)(quoted - error->text) : (int)strlen(error->text);
}

#endif
