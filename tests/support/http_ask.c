#include "support/http_ask.h"

#include <string.h>
#include <unistd.h>

#include "support/sp_peer.h"

const char *http_ask(uint16_t port, const char *request, char *answer, size_t room)
{
    int fd = sp_peer_connect(port, 0);
    size_t len = 0;
    ssize_t n;

    if (sp_peer_send(fd, request, strlen(request)))
        while ((n = read(fd, answer + len, room - len - 1)) > 0)
            len += (size_t)n;
    answer[len] = '\0';
    close(fd);
    return answer;
}
