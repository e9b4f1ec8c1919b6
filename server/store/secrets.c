/* A setting without effect is an error, because someone may rely on it. Used by store.c and check.c. */
#include "store/secrets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

enum { PASSWORD_MAX = 1024 };

static lks_code invalid(lks_error *error, const char *what)
{
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s", what);
}

static lks_code check(const store_files *f, const url *of, lks_error *error)
{
    if (!of->tls && (f->ca || f->certificate || f->key || f->server_name))
        return invalid(error,
                       "--store-ca, --store-certificate, --store-key and --store-server-name need a --store that "
                       "begins with rediss");
    if (!f->certificate != !f->key)
        return invalid(error, "--store-certificate and --store-key need each other");
    if (f->password && of->kind == URL_EMBEDDED)
        return invalid(error, "--store-password-file: an embedded store has no password");
    if (f->password && of->password)
        return invalid(error, "--store-password-file: --store already has a password");
    if (f->user && !f->password)
        return invalid(error, "--store-user needs --store-password-file");
    if (f->sentinel_password && of->kind != URL_SENTINEL)
        return invalid(error, "--store-sentinel-password-file needs a --store of sentinels");
    if (f->sentinel_user && !f->sentinel_password)
        return invalid(error, "--store-sentinel-user needs --store-sentinel-password-file");
    return LKS_OK;
}

static void erase(char *password)
{
    if (password)
        explicit_bzero(password, strlen(password));
    free(password);
}

/* Reads the first line of the file; NULL for path NULL. */
static lks_code read_password(const char *setting, const char *path, char **ret, lks_error *error)
{
    char line[PASSWORD_MAX + 2];

    *ret = NULL;
    if (!path)
        return LKS_OK;
    FILE *file = fopen(path, "re");
    if (!file)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: %s: %s", setting, path, strerror(errno));
    size_t read = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[read] = '\0';
    size_t len = strcspn(line, "\r\n");
    bool has_nul = len < read && line[len] == '\0';
    if (len == 0 || len > PASSWORD_MAX || has_nul)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "%s: %s: its first line must be a password of at most %d bytes without a NUL", setting,
                             path, PASSWORD_MAX);
    *ret = memory_copy(line, len);
    explicit_bzero(line, sizeof line);
    return LKS_OK;
}

lks_code secrets_load(secrets *a, const store_files *f, const url *of, lks_error *error)
{
    static const tls_names names = {"--store-certificate", "--store-key", "--store-ca", NULL};
    char *password = NULL, *of_sentinels = NULL;
    tls_context *context = NULL;

    lks_code code = check(f, of, error);
    if (code == LKS_OK)
        code = read_password("--store-password-file", f->password, &password, error);
    if (code == LKS_OK)
        code = read_password("--store-sentinel-password-file", f->sentinel_password, &of_sentinels, error);
    if (code == LKS_OK && of->tls)
        code = tls_context_load_client(f->ca, f->certificate, f->key, &names, &context, error);
    if (code != LKS_OK) {
        erase(password);
        erase(of_sentinels);
        return code;
    }
    secrets_clear(a);
    *a = (secrets){.as = {password ? f->user : of->user, password ? password : of->password},
                   .as_to_sentinels = {f->sentinel_user, of_sentinels},
                   .tls = {context, f->server_name},
                   .passwords = {password, of_sentinels}};
    return LKS_OK;
}

void secrets_clear(secrets *a)
{
    erase(a->passwords[0]);
    erase(a->passwords[1]);
    tls_context_free(a->tls.context);
    *a = (secrets){0};
}
