/* lockstock-man: writes a manual page in the language of scdoc, for the build. `lockstock-man TEMPLATE` replaces
 * lines "@name@" of a template; `lockstock-man --service NAME` writes the page of a service from its .proto. */
#include <stdio.h>
#include <string.h>

#include "scd.h"

static const struct {
    const char *line;
    void (*print)(void);
} parts[] = {
    {"@commands@\n", man_commands},
    {"@flags@\n", man_flags},
    {"@exits@\n", man_exits},
    {"@settings@\n", man_settings},
    {"@server-flags@\n", man_server_flags},
    {"@bench-flags@\n", man_bench_flags},
    {"@bench-scenarios@\n", man_bench_scenarios},
};

static int fill_in(FILE *template)
{
    char line[1024];

    while (fgets(line, sizeof line, template)) {
        size_t i = 0, n = sizeof parts / sizeof *parts;
        while (i < n && strcmp(parts[i].line, line) != 0)
            i++;
        if (i < n) {
            parts[i].print();
        } else if (line[0] == '@') {
            fprintf(stderr, "lockstock-man: nothing is called %s", line);
            return 1;
        } else {
            fputs(line, stdout);
        }
    }
    return ferror(template) ? 1 : 0;
}

int main(int argc, char **argv)
{
    int status = 2;

    if (argc == 3 && strcmp(argv[1], "--service") == 0) {
        status = man_service(argv[2]);
    } else if (argc == 2) {
        FILE *template = fopen(argv[1], "re");
        if (!template) {
            perror(argv[1]);
            return 1;
        }
        status = fill_in(template);
        fclose(template);
    }
    return fflush(stdout) != 0 ? 1 : status;
}
