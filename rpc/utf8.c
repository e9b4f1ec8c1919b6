/* Accepts exactly the byte sequences of RFC 3629, section 4:
 *
 *   00..7F
 *   C2..DF 80..BF
 *   E0     A0..BF 80..BF      (no overlong form)
 *   E1..EF 80..BF 80..BF      but ED 80..9F 80..BF (no surrogate)
 *   F0     90..BF 80..BF 80..BF
 *   F1..F3 80..BF 80..BF 80..BF
 *   F4     80..8F 80..BF 80..BF
 */
#include <stdint.h>
#include <string.h>

#include <lockstock/rpc/utf8.h>

static bool within(uint8_t byte, uint8_t low, uint8_t high)
{
    return byte >= low && byte <= high;
}

/* Returns the length of the character at `text`, which has `left` bytes, or 0 if it is invalid. */
static size_t character(const uint8_t *text, size_t left)
{
    uint8_t lead = text[0];
    if (lead < 0x80)
        return 1;
    size_t len = within(lead, 0xC2, 0xDF) ? 2 : within(lead, 0xE0, 0xEF) ? 3 : within(lead, 0xF0, 0xF4) ? 4 : 0;
    if (len == 0 || len > left)
        return 0;
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (!within(text[1], low, high))
        return 0;
    for (size_t i = 2; i < len; i++)
        if (!within(text[i], 0x80, 0xBF))
            return 0;
    return len;
}

bool lks_rpc_utf8_valid(const void *bytes, size_t len)
{
    const uint8_t *text = bytes;
    size_t i = 0;
    while (i < len) {
        /* Most text is ASCII: eight bytes at a time. */
        uint64_t word;
        if (len - i >= sizeof word) {
            memcpy(&word, text + i, sizeof word);
            if ((word & UINT64_C(0x8080808080808080)) == 0) {
                i += sizeof word;
                continue;
            }
        }
        size_t step = character(text + i, len - i);
        if (step == 0)
            return false;
        i += step;
    }
    return true;
}
