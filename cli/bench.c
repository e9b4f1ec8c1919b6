/* lockstock bench: the program beside this one, or in PATH. */
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
    if (args->at > 2) /* it would not hear of what stands before it */
        return exits_wrong("bench", "its flags must stand behind it");
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
