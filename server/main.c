/* lockstockd. Reads the settings, runs the server, says in one line what is wrong
 * when something is. Exit: 0 drained, 1 could not run, 2 bad settings. */
#include <stdio.h>

#include <lockstock/version.h>

#include "config.h"
#include "descriptors.h"
#include "log.h"
#include "memory.h"
#include "server.h"

int main(int argc, char **argv)
{
    settings config;
    config_action action;
    lks_error error = {0};
    log_level level;
    int status = 0;

    if (config_load(argc, argv, &config, &action, &error) != LKS_OK) {
        fprintf(stderr, "lockstockd: %s\n", error.message);
        status = 2;
    } else if (action == CONFIG_HELP) {
        config_print_help();
    } else if (action == CONFIG_VERSION) {
        printf("lockstockd %s\n", LOCKSTOCK_VERSION);
    } else if (!log_level_parse(config.log_level, &level)) {
        fprintf(stderr, "lockstockd: log-level: must be error, warn, info or debug\n");
        status = 2;
    } else {
        log_set_level(level);
        memory_keep_what_is_freed();
        if (descriptors_raise(&config.connections, &error) != LKS_OK || server_run(&config, &error) != LKS_OK) {
            fprintf(stderr, "lockstockd: %s\n", error.message);
            status = error.code == LKS_INVALID_ARGUMENT ? 2 : 1;
        } else {
            log_info("stopped", "drained=true");
        }
    }
    config_free(&config);
    return status;
}
