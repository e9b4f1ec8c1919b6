/* lockstockd. Reads the settings and runs the server; prints one line about a failure. Exit status: 0 drained; 1 could
 * not run, and another try may succeed; 2 wrong settings; 78 (EX_CONFIG) settings or data of the server's own that it
 * refuses to serve as they are. The systemd unit restarts it only after 1. */
#include <stdio.h>

#include <lockstock/version.h>

#include "check.h"
#include "commit.h"
#include "config.h"
#include "descriptors.h"
#include "log.h"
#include "memory.h"
#include "base/standard_files.h"
#include "server.h"

enum { EXIT_TRY_AGAIN = 1, EXIT_WRONG_SETTING = 2, EXIT_AS_IT_IS = 78 };

static int fail(const lks_error *error)
{
    fprintf(stderr, "lockstockd: %s\n", error->message);
    if (error->code == LKS_INVALID_ARGUMENT)
        return EXIT_WRONG_SETTING;
    return error->code == LKS_FAILED_PRECONDITION ? EXIT_AS_IT_IS : EXIT_TRY_AGAIN;
}

static void begin_log(const settings *config)
{
    log_level level = LOG_LEVEL_INFO;
    log_format format = LOG_FORMAT_LOGFMT;

    log_level_parse(config->log_level, &level);
    log_format_parse(config->log_format, &format);
    log_set(level, format);
}

static int check(const settings *config)
{
    identity *known;
    lks_error error = {0};

    if (check_settings(config, false, &known, &error) != LKS_OK)
        return fail(&error);
    identity_free(known);
    check_modes(config);
    printf("the settings are good\n");
    return 0;
}

static int run(settings *config)
{
    lks_error error = {0};

    memory_keep_what_is_freed();
    if (descriptors_raise(&config->connections, &error) != LKS_OK || server_run(config, &error) != LKS_OK)
        return fail(&error);
    log_info("stopped", "drained=true");
    return 0;
}

int main(int argc, char **argv)
{
    settings config;
    config_action action;
    lks_error error = {0};
    int status = 0;

    standard_files_hold();
    if (config_load(argc, argv, &config, &action, &error) != LKS_OK) {
        status = fail(&error);
    } else if (action == CONFIG_HELP) {
        config_print_help();
    } else if (action == CONFIG_VERSION) {
        puts("lockstockd " LOCKSTOCK_VERSION LOCKSTOCK_COMMIT_NOTE);
    } else if (action == CONFIG_PRINT) {
        config_print(&config);
    } else {
        begin_log(&config);
        status = action == CONFIG_CHECK ? check(&config) : run(&config);
    }
    config_free(&config);
    return status;
}
