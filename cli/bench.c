/* lockstock bench: runs lockstock-bench, which is beside this program or in PATH. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

exit_code bench_command(cli *c, arguments *args)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof "-bench");
    char **argv = args->argv + args->at - 1;

    (void)c;
    if (args->at > 2) /* flags before "bench" would be lost */
        return exits_wrong("bench", "flags must follow the command");
    argv[0] = "lockstock-bench";
    if (n > 0) {
        strcpy(path + n, "-bench");
        execv(path, argv);
    }
    execvp(argv[0], argv);
    exit_code code = errno == ENOENT ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN;
    exits_wrong(argv[0], strerror(errno));
    return code;
}
