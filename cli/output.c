#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exits.h"

enum { READ_BYTES = 16 * 1024 };

int output_open(output *o, char *kept)
{
    int ends[2];

    *o = (output){.fd = -1, .kept = kept};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        exits_wrong("pipe", strerror(errno));
        return -1;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    o->fd = ends[0];
    return ends[1];
}

/* Returns false if there is no more for now. */
static bool copy(output *o)
{
    char bytes[READ_BYTES];
    ssize_t n = read(o->fd, bytes, sizeof bytes);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    if (n <= 0) {
        close(o->fd);
        o->fd = -1;
        return false;
    }
    fwrite(bytes, 1, (size_t)n, stdout);
    size_t room = LKS_ONCE_BODY_MAX - o->n_kept, more = (size_t)n < room ? (size_t)n : room;
    o->cut = o->cut || more < (size_t)n;
    memcpy(o->kept + o->n_kept, bytes, more);
    o->n_kept += more;
    return true;
}

void output_copy(output *o)
{
    copy(o);
    fflush(stdout);
}

void output_end(output *o)
{
    while (o->fd >= 0 && copy(o))
        ;
    fflush(stdout);
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
}

void output_print_cut(void)
{
    fprintf(stderr, "lockstock: only the first %d bytes of the output are stored\n", LKS_ONCE_BODY_MAX);
}
