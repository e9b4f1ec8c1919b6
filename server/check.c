/* Called by main and server_run. */
#include "check.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "log.h"
#include "quorum/quorum.h"
#include "store/secrets.h"
#include "store/url.h"
#include "tracing/tracing.h"

const char check_no_certificate[] = "needs --tls-certificate and --tls-key";

tls_files check_tls_files(const settings *config)
{
    static const tls_names names = {"--tls-certificate", "--tls-key", "--tls-client-ca", "--tls-client-required"};

    return (tls_files){config->tls_certificate, config->tls_key, config->tls_client_ca, config->tls_client_required,
                       &names};
}

/* An address that other machines can reach needs authentication and encryption. */
static lks_code check_exposure(const settings *config, const identity *known, const char *address, lks_error *error)
{
    bool safe = wires_is_encrypted(address) && identity_required(known);

    if (!wires_is_exposed(address) || safe || config->insecure)
        return LKS_OK;
    return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                         "--listen %s: an address that other machines can reach needs TLS and --policy, or --insecure",
                         address);
}

lks_code check_wrong_address(const char *address, const lks_error *why, lks_error *error)
{
    return lks_error_set(error, why->code, LKS_APPLIED_NO, "--listen %s: %s", address, why->message);
}

static lks_code check_origin(const char *origin, lks_error *error)
{
    if (wires_is_origin(origin))
        return LKS_OK;
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                         "--allow-origin %s: must be scheme://host or scheme://host:port", origin);
}

/* Returns the part of the address that the server binds: host:port, or a path. */
static const char *place_of(const char *address, size_t *len)
{
    const char *end = strstr(address, "://"), *place = end ? end + 3 : address;

    *len = *place == '/' ? strlen(place) : strcspn(place, "/");
    return place;
}

/* Whether an address before the n-th binds the same host and port or the same path. Port 0 is a new port each time. */
static bool is_given_before(const settings *config, size_t n)
{
    size_t len, other_len;
    const char *place = place_of(config->listen.of[n], &len);

    if (len >= 2 && memcmp(place + len - 2, ":0", 2) == 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        const char *other = place_of(config->listen.of[i], &other_len);
        if (len == other_len && memcmp(place, other, len) == 0)
            return true;
    }
    return false;
}

/* Checks the addresses. Sets *for_pages if one of them is a WebSocket address. */
static lks_code check_addresses(const settings *config, bool starts, const identity *known, const tls_files *files,
                                bool *for_pages, lks_error *error)
{
    lks_code code = LKS_OK;

    for (size_t i = 0; i < config->listen.n && code == LKS_OK; i++) {
        const char *address = config->listen.of[i];
        code = check_exposure(config, known, address, error);
        if (code == LKS_OK) {
            lks_error why;
            if (wires_check(address, starts, files->certificate, check_no_certificate, &why) != LKS_OK)
                code = check_wrong_address(address, &why, error);
        }
        if (code == LKS_OK && is_given_before(config, i))
            code = lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                                 "--listen %s: another address has the same host and port, or the same path", address);
        *for_pages = *for_pages || wires_is_for_pages(address);
    }
    return code;
}

store_files check_store_files(const settings *config)
{
    return (store_files){.ca = config->store_ca,
                         .certificate = config->store_certificate,
                         .key = config->store_key,
                         .server_name = config->store_server_name,
                         .user = config->store_user,
                         .password = config->store_password_file,
                         .sentinel_user = config->store_sentinel_user,
                         .sentinel_password = config->store_sentinel_password_file};
}

lks_code check_store(const settings *config, lks_error *error)
{
    const store_files files = check_store_files(config);
    secrets way = {0};
    url parsed;

    lks_code code = url_parse(config->store, config_where(config, "store"), &parsed, error);
    if (code != LKS_OK)
        return code;
    if (config->wait_replicas > 0 && parsed.kind == URL_EMBEDDED)
        code = lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "--wait-replicas needs a --store with replicas; an embedded store has none");
    else
        code = secrets_load(&way, &files, &parsed, error);
    secrets_clear(&way);
    url_clear(&parsed);
    return code;
}

/* Also https://, http+unix:// and http+fd://. */
static bool serves_http(const settings *config)
{
    for (size_t i = 0; i < config->listen.n; i++)
        if (strncmp(config->listen.of[i], "http", strlen("http")) == 0)
            return true;
    return false;
}

static lks_code check_wires(const settings *config, bool starts, const identity *known, lks_error *error)
{
    const tls_files files = check_tls_files(config);
    bool for_pages = false;

    lks_code code = wires_check_tls(&files, error);
    for (size_t i = 0; i < config->allow_origin.n && code == LKS_OK; i++)
        code = check_origin(config->allow_origin.of[i], error);
    if (code == LKS_OK)
        code = check_addresses(config, starts, known, &files, &for_pages, error);
    if (code == LKS_OK && config->allow_origin.n > 0 && !for_pages)
        code = lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "--allow-origin needs a ws:// or wss:// address in --listen");
    if (code == LKS_OK && config->console && !serves_http(config))
        code = lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "--console needs an http:// or https:// address in --listen");
    return code;
}

static lks_code check_lock_store(const settings *config, lks_error *error)
{
    const config_list *namespaces = &config->lock_store_namespaces;

    if (config->lock_store)
        return quorum_check(config->lock_store, config_where(config, "lock-store"), namespaces->of, namespaces->n,
                            error);
    return namespaces->n == 0 ? LKS_OK
                              : lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                                              "--lock-store-namespaces needs --lock-store");
}

/* A default that is above the maximum is cut without a word. */
static lks_code check_timeouts(const settings *config, lks_error *error)
{
    const char *where = config_where(config, "timeout-ms");

    if (config->timeout_ms <= config->timeout_max_ms || strcmp(where, "timeout-ms") == 0)
        return LKS_OK;
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                         "%s: must be at most --timeout-max-ms, which is %" PRId64, where, config->timeout_max_ms);
}

lks_code check_settings(const settings *config, bool starts, identity **ret, lks_error *error)
{
    identity *known = NULL;

    lks_code code = check_timeouts(config, error);
    if (code == LKS_OK)
        code = check_store(config, error);
    if (code == LKS_OK)
        code = check_lock_store(config, error);
    if (code == LKS_OK)
        code = identity_load(config->policy, config->tokens, &known, error);
    if (code == LKS_OK)
        code = check_wires(config, starts, known, error);
    if (code == LKS_OK)
        code = tracing_check(error);
    if (code == LKS_OK)
        *ret = known;
    else
        identity_free(known);
    return code;
}

/* ---- files ------------------------------------------------------------------------ */

static void warn_of_mode(const char *path, mode_t unsafe_bits, const char *reason)
{
    struct stat file;

    if (path && stat(path, &file) == 0 && (file.st_mode & unsafe_bits))
        log_warn("file-mode", "file=%s mode=%03o reason=\"%s\"", path, (unsigned)file.st_mode & 0777, reason);
}

void check_modes(const settings *config)
{
    static const char writable[] = "other users can write it", readable[] = "other users can read it";

    warn_of_mode(config->policy, S_IWGRP | S_IWOTH, writable);
    warn_of_mode(config->tokens, S_IWGRP | S_IWOTH, writable);
    warn_of_mode(config->tls_client_ca, S_IWGRP | S_IWOTH, writable);
    warn_of_mode(config->tls_key, S_IWGRP | S_IRWXO, readable);
    warn_of_mode(config->store_ca, S_IWGRP | S_IWOTH, writable);
    warn_of_mode(config->store_key, S_IWGRP | S_IRWXO, readable);
    warn_of_mode(config->store_password_file, S_IWGRP | S_IRWXO, readable);
    warn_of_mode(config->store_sentinel_password_file, S_IWGRP | S_IRWXO, readable);
}
