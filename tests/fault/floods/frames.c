#include "frames.h"

#include <string.h>

enum { HEAD = 9 };

bool frames_next(frames *f, frame *ret, int timeout_ms)
{
    for (;;) {
        const uint8_t *head = f->in.data + f->at;
        size_t have = f->in.len - f->at;
        size_t len = have >= HEAD ? (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2] : 0;
        if (have >= HEAD && have >= HEAD + len) {
            *ret = (frame){.type = head[3],
                           .flags = head[4],
                           .id = (uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8],
                           .data = head + HEAD,
                           .len = len};
            f->at += HEAD + len;
            return true;
        }
        if (f->at > 0) {
            memmove(f->in.data, head, have);
            f->in.len = have;
            f->at = 0;
        }
        uint8_t more[4096];
        ssize_t n = raw_receive(f->from, more, sizeof more, timeout_ms);
        if (n <= 0)
            return false;
        bytes_put(&f->in, more, (size_t)n);
    }
}

void frames_free(frames *f)
{
    bytes_free(&f->in);
}
