/* A lockstockd with rights, TLS and several listeners, the files it reads, and calls to it. Main thread only. */
#ifndef LOCKSTOCK_TESTS_ADMISSION_SCENE_H
#define LOCKSTOCK_TESTS_ADMISSION_SCENE_H

#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>

#include <lockstock/lockstock.h>
#include <lockstock/v1/admin.lks.h>
#include <lockstock/v1/id.lks.h>
#include <lockstock/v1/idempotency.lks.h>
#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/ratelimit.lks.h>
#include <lockstock/v1/stock.lks.h>

#include "support/certificates.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "support/sp_caller.h"
#include "support/tempdir.h"
#include "test.h"

enum { EXIT_TIMEOUT_MS = 60000, SAID_TIMEOUT_MS = 60000 };

#define METHOD(name, Name, request, response, constant) &(constant),
static const lks_rpc_method *const methods[] = {LKS_LOCK_METHODS(METHOD) LKS_STOCK_METHODS(METHOD)
                                                    LKS_IDEMPOTENCY_METHODS(METHOD) LKS_RATE_LIMIT_METHODS(METHOD)
                                                        LKS_ID_METHODS(METHOD) LKS_ADMIN_METHODS(METHOD)};
enum { N_METHODS = sizeof methods / sizeof methods[0] };

static const char *const services[] = {"LockService",      "StockService", "IdempotencyService",
                                       "RateLimitService", "IdService",    "AdminService"};
static const char *const effects[] = {"READ", "WRITE", "ADMIN"};
enum { N_SERVICES = 6, N_EFFECTS = 3 };

/* What must never be seen in a log. */
#define STORE_PASSWORD "store-password-5f1c"
#define PAYLOAD "payload-9b2e"
#define SECRET "-token-e07a" /* in every token */

extern struct admission_scene {
    char *dir;
    authority *ours, *others;
    redis_fixture *redis;
    server_fixture *server;
    char store[256], tls_url[64], wss_url[64], unix_url[160], grpcs_url[64];
    const char *args[32];
} here;

#define NO_METHOD "/lockstock.v1.StockService/NoSuchMethod"
#define GET_ITEM "/lockstock.v1.StockService/GetItem"
#define PUT_ITEM "/lockstock.v1.StockService/PutItem"
#define INSPECT "/lockstock.v1.LockService/Inspect"

/* Valid until the eighth call after it. */
const char *path(const char *name);
void write_file(const char *name, const char *text);
/* A line of the token file. */
void add_token(FILE *file, const char *token, const char *principal, long until);
/* "LockService-READ-token-e07a" */
const char *token_of(size_t service, size_t effect);
void write_policy(const char *more);
void write_certificates(const char *server_name);
/* SIGHUP; `event` is what the server must say. */
void reload(const char *event);
int put_files_back(void **state);
int start(void **state);
int stop(void **state);
sp_caller *over_tcp(void);
sp_caller *over_unix(void);
/* NULL when it is not let in. certificate NULL: none. */
sp_caller *secured(const char *url, const char *certificate);
sp_caller *over_tls(const char *certificate);
/* Asks and gives the code. */
lks_code asks(sp_caller *c, const char *method, const void *request, const char *token, const char *ns);
lks_code gets(sp_caller *c, const char *sku, const char *token, const char *ns);
lks_code puts_item(sp_caller *c, const char *sku, const char *token, const char *ns);

#endif
