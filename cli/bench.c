/* lockstock bench: runs lockstock-bench, which is beside this program or in PATH. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"

exit_code bench_command(cli *c, const invocation *in)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof "-bench");

    (void)c;
    in->argv[0] = "lockstock-bench";
    if (n > 0) {
        strcpy(path + n, "-bench");
        execv(path, in->argv);
    }
    return exits_exec(in->argv);
}
