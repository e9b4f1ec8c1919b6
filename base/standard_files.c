/* Called by lockstockd and lockstock. */
#include "base/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

void standard_files_hold(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}
