/* Access control: the whole matrix of credentials, rights and namespaces, and invalid
 * files. */
#include <unistd.h>

#include "calls/identity.h"
#include "digest.h"
#include "support/tempdir.h"
#include "test.h"

/* printf %s "<text>" | sha256sum */
#define DIGEST_OF_SESAME "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272"
#define DIGEST_OF_OPEN "2348f998744212575d85959674f9607ab26f67708a917157472832386337c904"
/* printf third | sha256sum; and of nothing */
#define DIGEST_OF_THIRD "b1e99324505bd32da0e1f85dcf5e19a09db0481e8a15f62c41eb320304a8e927"
#define DIGEST_OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define BYTES_50 "12345678901234567890123456789012345678901234567890"
#define BYTES_200 BYTES_50 BYTES_50 BYTES_50 BYTES_50
#define LONG_NAME "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn" /* 49 */

static const lks_rpc_method reads = {.path = "/lockstock.v1.StockService/GetItem", .effect = LKS_RPC_EFFECT_READ};
static const lks_rpc_method writes = {.path = "/lockstock.v1.StockService/Deduct", .effect = LKS_RPC_EFFECT_WRITE};
static const lks_rpc_method admin = {.path = "/lockstock.v1.StockService/TrimLedger", .effect = LKS_RPC_EFFECT_ADMIN};
static const lks_rpc_method locks = {.path = "/lockstock.v1.LockService/Inspect", .effect = LKS_RPC_EFFECT_READ};
static const lks_rpc_method similar = {.path = "/other.v1.NoStockService/GetItem", .effect = LKS_RPC_EFFECT_READ};

static const lks_rpc_method who_am_i = {.path = "/lockstock.v1.AdminService/WhoAmI", .effect = LKS_RPC_EFFECT_READ};

static char *dir;

static int setup(void **state)
{
    dir = tempdir_make();
    return dir ? 0 : -1;
}

static int teardown(void **state)
{
    tempdir_remove(dir);
    return 0;
}

static const char *file(const char *name, const char *text)
{
    static char paths[2][256];
    char *path = paths[name[0] == 't'];

    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static identity *load(const char *policy, const char *tokens)
{
    identity *i = NULL;
    lks_error error;

    if (identity_load(file("policy", policy), tokens ? file("tokens", tokens) : NULL, &i, &error) != LKS_OK)
        fail_msg("%s", error.message);
    return i;
}

static lks_code judge(const identity *i, credentials c, const lks_rpc_method *method, const char *expected_ns)
{
    lks_error error = {0};
    identity_verdict verdict = {0};
    lks_code code = identity_admit(i, &c, method, 1000, &verdict, &error);

    if (code != LKS_OK) {
        assert_int_equal(error.applied, LKS_APPLIED_NO);
        /* The same words for every reason: nothing reveals what exists. */
        assert_string_equal(error.message,
                            code == LKS_UNAUTHENTICATED ? "the caller is not known" : "the caller may not do this");
        assert_int_equal(error.reason,
                         code == LKS_UNAUTHENTICATED ? LKS_REASON_NOT_AUTHENTICATED : LKS_REASON_PERMISSION_DENIED);
    } else if (expected_ns) {
        assert_int_equal(verdict.ns.len, strlen(expected_ns));
        assert_memory_equal(verdict.ns.data, expected_ns, verdict.ns.len);
    }
    return code;
}

static credentials bearer(const char *header)
{
    return (credentials){.authorization = {header, strlen(header)}};
}

static credentials in(credentials c, const char *ns)
{
    c.ns = (lks_rpc_slice){ns, strlen(ns)};
    return c;
}

TEST(without_a_policy_everybody_may)
{
    identity *i;
    lks_error error;
    assert_int_equal(identity_load(NULL, NULL, &i, &error), LKS_OK);
    assert_false(identity_required(i));
    assert_int_equal(judge(i, (credentials){0}, &admin, ""), LKS_OK);
    assert_int_equal(judge(i, in((credentials){0}, "any"), &admin, "any"), LKS_OK);
    identity_free(i);
}

/* promise A1 */
TEST(with_a_policy_unknown_callers_are_refused)
{
    const uid_t stranger = 7;
    identity *i = load("[shop]\n* = READ\n", DIGEST_OF_SESAME " shop\n");
    assert_true(identity_required(i));
    assert_int_equal(judge(i, (credentials){0}, &reads, NULL), LKS_UNAUTHENTICATED);
    assert_int_equal(judge(i, (credentials){.uid = &stranger}, &reads, NULL), LKS_UNAUTHENTICATED);
    assert_int_equal(judge(i, (credentials){.certificate = "x"}, &reads, NULL), LKS_UNAUTHENTICATED);
    assert_int_equal(judge(i, bearer("Bearer sesam"), &reads, NULL), LKS_UNAUTHENTICATED);
    assert_int_equal(judge(i, bearer("Bearer sesamee"), &reads, NULL), LKS_UNAUTHENTICATED);
    assert_int_equal(judge(i, bearer("Bearer sesame"), &reads, NULL), LKS_OK);
    identity_free(i);
}

/* promise A2 */
TEST(rights_are_granted_for_each_service)
{
    static const struct {
        const char *right;
        lks_code reads, writes, admin, locks, similar;
    } matrix[] = {
        {"StockService = READ", LKS_OK, LKS_PERMISSION_DENIED, LKS_PERMISSION_DENIED, LKS_PERMISSION_DENIED,
         LKS_PERMISSION_DENIED},
        {"StockService = WRITE", LKS_PERMISSION_DENIED, LKS_OK, LKS_PERMISSION_DENIED, LKS_PERMISSION_DENIED,
         LKS_PERMISSION_DENIED},
        {"StockService = READ, WRITE", LKS_OK, LKS_OK, LKS_PERMISSION_DENIED, LKS_PERMISSION_DENIED,
         LKS_PERMISSION_DENIED},
        {"StockService = ADMIN", LKS_PERMISSION_DENIED, LKS_PERMISSION_DENIED, LKS_OK, LKS_PERMISSION_DENIED,
         LKS_PERMISSION_DENIED},
        {"* = READ", LKS_OK, LKS_PERMISSION_DENIED, LKS_PERMISSION_DENIED, LKS_OK, LKS_OK},
        {"LockService = READ\nStockService = WRITE", LKS_PERMISSION_DENIED, LKS_OK, LKS_PERMISSION_DENIED, LKS_OK,
         LKS_PERMISSION_DENIED},
        {"namespace = n", LKS_PERMISSION_DENIED, LKS_PERMISSION_DENIED, LKS_PERMISSION_DENIED, LKS_PERMISSION_DENIED,
         LKS_PERMISSION_DENIED},
    };
    for (size_t m = 0; m < sizeof matrix / sizeof *matrix; m++) {
        char policy[256];
        const credentials c = {.certificate = "shop.internal"};
        snprintf(policy, sizeof policy, "[shop]\ncertificate = shop.internal\n%s\n", matrix[m].right);
        identity *i = load(policy, NULL);
        assert_int_equal(judge(i, c, &reads, NULL), matrix[m].reads);
        assert_int_equal(judge(i, c, &writes, NULL), matrix[m].writes);
        assert_int_equal(judge(i, c, &admin, NULL), matrix[m].admin);
        assert_int_equal(judge(i, c, &locks, NULL), matrix[m].locks);
        assert_int_equal(judge(i, c, &similar, NULL), matrix[m].similar);
        identity_free(i);
    }
}

/* promise A3 */
TEST(a_principal_keeps_to_its_namespace)
{
    const credentials a = {.certificate = "a"}, b = {.certificate = "b"};
    identity *i = load("[a]\nnamespace = ns\ncertificate = a\n* = READ\n[b]\ncertificate = b\n* = READ\n", NULL);
    assert_int_equal(judge(i, a, &reads, "ns"), LKS_OK);
    assert_int_equal(judge(i, in(a, "ns"), &reads, "ns"), LKS_OK);
    assert_int_equal(judge(i, in(a, "n"), &reads, NULL), LKS_PERMISSION_DENIED);
    assert_int_equal(judge(i, in(a, "nsx"), &reads, NULL), LKS_PERMISSION_DENIED);
    assert_int_equal(judge(i, b, &reads, ""), LKS_OK);
    assert_int_equal(judge(i, in(b, "its-choice"), &reads, "its-choice"), LKS_OK);
    identity_free(i);
}

TEST(each_kind_of_evidence)
{
    const uid_t alice = 1001, bob = 1002;
    identity *i =
        load("[alice]\nuid = 1001\nnamespace = a\n* = READ\n"
             "[bob]\nuid = 1002\ncertificate = bob.internal\ncertificate = bob.example\nnamespace = b\n* = READ\n",
             DIGEST_OF_SESAME " bob\n");
    assert_int_equal(judge(i, (credentials){.uid = &alice}, &reads, "a"), LKS_OK);
    assert_int_equal(judge(i, (credentials){.uid = &bob}, &reads, "b"), LKS_OK);
    assert_int_equal(judge(i, (credentials){.certificate = "BOB.internal"}, &reads, "b"), LKS_OK);
    assert_int_equal(judge(i, (credentials){.certificate = "bob.example"}, &reads, "b"), LKS_OK);
    /* A token counts before the connection; a wrong one is not made good by it. */
    credentials both = bearer("Bearer sesame");
    both.uid = &alice;
    assert_int_equal(judge(i, both, &reads, "b"), LKS_OK);
    both = bearer("Bearer wrong");
    both.uid = &alice;
    assert_int_equal(judge(i, both, &reads, NULL), LKS_UNAUTHENTICATED);
    identity_free(i);
}

/* promise A4 */
static int64_t last_end(const identity *i)
{
    identity_use use;

    assert_non_null(identity_next(i, NULL, &use));
    return use.token_ends;
}

TEST(tokens_end_and_two_live_side_by_side)
{
    identity *i = load("[a]\n* = READ\n", "# the old one and the new one\n\n" DIGEST_OF_OPEN
                                          " a 1001 # soon over\n" DIGEST_OF_SESAME " a\n");
    assert_int_equal(judge(i, bearer("Bearer sesame"), &reads, NULL), LKS_OK);
    assert_int_equal(last_end(i), 0);
    identity_free(i);
    i = load("[a]\n* = READ\n", DIGEST_OF_SESAME " a 1001\n" DIGEST_OF_OPEN " a 1002\n");
    assert_int_equal(judge(i, bearer("Bearer sesame"), &reads, NULL), LKS_OK);
    assert_int_equal(last_end(i), 1002);
    identity_free(i);
    i = load("[a]\n* = READ\n", DIGEST_OF_SESAME " a 1000\n");
    assert_int_equal(judge(i, bearer("Bearer sesame"), &reads, NULL), LKS_UNAUTHENTICATED);
    identity_free(i);
}

/* Files as Windows and editors write them; comments; a principal in two sections. */
TEST(files_of_all_kinds_are_read)
{
    identity *i = load("\xEF\xBB\xBF[a]\r\n; a comment\r\nnamespace = n ; another\r\n  \r\n[b]\r\ncertificate=b\r\n"
                       "* = READ\r\n[a]\r\nStockService = READ,\r\n  WRITE\r\nlockstock.v1.LockService =\tREAD",
                       "\r\n  # nothing\r\n\t" DIGEST_OF_SESAME "\ta 2000 \r\n" DIGEST_OF_OPEN " b");
    assert_int_equal(judge(i, bearer("Bearer sesame"), &writes, "n"), LKS_OK);
    assert_int_equal(judge(i, bearer("Bearer sesame"), &locks, "n"), LKS_OK);
    assert_int_equal(judge(i, bearer("Bearer sesame"), &admin, NULL), LKS_PERMISSION_DENIED);
    assert_int_equal(judge(i, bearer("Bearer open"), &reads, ""), LKS_OK);
    identity_free(i);
    i = load("", ""); /* all callers are refused */
    assert_int_equal(judge(i, (credentials){0}, &reads, NULL), LKS_UNAUTHENTICATED);
    identity_free(i);
}

/* Services of the same name in other packages, and methods that are in no contract. */
/* promise A2 */
TEST(a_service_may_be_named_with_its_package)
{
    static const lks_rpc_method envoy = {.path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
                                         .effect = LKS_RPC_EFFECT_WRITE};
    static const lks_rpc_method ours = {.path = "/lockstock.v1.RateLimitService/Check", .effect = LKS_RPC_EFFECT_WRITE};
    static const lks_rpc_method bare = {.path = "RateLimitService", .effect = LKS_RPC_EFFECT_WRITE};
    static const lks_rpc_method rootless = {.path = "RateLimitService/Check", .effect = LKS_RPC_EFFECT_WRITE};
    static const lks_rpc_method nothing = {.path = "/lockstock.v1.RateLimitService/Check"};
    const credentials a = {.certificate = "a"};
    identity *i = load("[a]\ncertificate = a\nRateLimitService = WRITE\n", NULL);
    assert_int_equal(judge(i, a, &envoy, NULL), LKS_OK);
    assert_int_equal(judge(i, a, &ours, NULL), LKS_OK);
    assert_int_equal(judge(i, a, &bare, NULL), LKS_PERMISSION_DENIED);
    assert_int_equal(judge(i, a, &rootless, NULL), LKS_PERMISSION_DENIED);
    assert_int_equal(judge(i, a, &nothing, NULL), LKS_PERMISSION_DENIED);
    identity_free(i);
    i = load("[a]\ncertificate = a\nenvoy.service.ratelimit.v3.RateLimitService = WRITE\n", NULL);
    assert_int_equal(judge(i, a, &envoy, NULL), LKS_OK);
    assert_int_equal(judge(i, a, &ours, NULL), LKS_PERMISSION_DENIED);
    identity_free(i);
}

/* Only "Bearer" carries a token, and an empty token is invalid. */
/* promise A4: a token is valid until it expires, only as Bearer, and is checked before certificate and uid; a wrong
 * token fails although those are right */
TEST(other_authorization_schemes_are_unauthenticated)
{
    static const char *const headers[] = {"Basic sesame",    "Digest sesame", "Bearer",         "Bearer ",
                                          "sesame",          "Bearersesame",  "Bearer  sesame", "Bearer sesame ",
                                          "Bearer sesame\n", " Bearer sesame"};
    static const char with_nul[] = "Bearer sesame\0x";
    identity *i = load("[a]\ncertificate = a\n* = READ\n", DIGEST_OF_SESAME " a\n");
    for (size_t h = 0; h < sizeof headers / sizeof *headers; h++) {
        credentials c = bearer(headers[h]);
        c.certificate = "a"; /* does not make it good */
        assert_int_equal(judge(i, c, &reads, NULL), LKS_UNAUTHENTICATED);
    }
    const credentials cut = {.authorization = {with_nul, sizeof with_nul - 1}};
    assert_int_equal(judge(i, cut, &reads, NULL), LKS_UNAUTHENTICATED);
    assert_int_equal(judge(i, bearer("bearer sesame"), &reads, NULL), LKS_OK);
    identity_free(i);
}

/* promise A5 */
TEST(a_nul_in_a_file_is_refused)
{
    static const char text[] = "[a]\n* = READ\0, WRITE\n";
    identity *i = NULL;
    lks_error error;
    const char *path = file("policy", "");
    FILE *f = fopen(path, "w");
    fwrite(text, 1, sizeof text - 1, f);
    fclose(f);
    assert_int_equal(identity_load(path, NULL, &i, &error), LKS_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "line 2: contains a NUL"));
}

/* The text of the page's block under "<!-- name -->". */
static void read_block(const char *name, char *text, size_t size)
{
    FILE *page = fopen(SECURITY_MD, "r");
    char line[512], mark[32];
    size_t len = 0;
    int state = 0; /* 1: after the mark, 2: in the block */

    assert_non_null(page);
    snprintf(mark, sizeof mark, "<!-- %s -->\n", name);
    while (fgets(line, sizeof line, page)) {
        bool fence = strncmp(line, "```", 3) == 0;
        if (state == 2 && fence)
            break;
        if (state == 2)
            len += (size_t)snprintf(text + len, size - len, "%s", line);
        if (strcmp(line, mark) == 0 || (state == 1 && fence))
            state++;
    }
    fclose(page);
    assert_int_equal(state, 2);
    assert_in_range(len, 1, size - 1);
}

TEST(the_page_shows_files_that_are_right)
{
    char policy[2048], tokens[1024];
    const uid_t jobs = 1001;
    read_block("policy", policy, sizeof policy);
    read_block("tokens", tokens, sizeof tokens);
    identity *i = load(policy, tokens);
    const credentials shop = {.certificate = "shop.backup.internal"};
    assert_int_equal(judge(i, shop, &writes, "shop"), LKS_OK);
    assert_int_equal(judge(i, in(shop, "other"), &writes, NULL), LKS_PERMISSION_DENIED);
    assert_int_equal(judge(i, shop, &admin, NULL), LKS_PERMISSION_DENIED);
    assert_int_equal(judge(i, shop, &locks, NULL), LKS_PERMISSION_DENIED);
    assert_int_equal(judge(i, (credentials){.uid = &jobs}, &locks, ""), LKS_OK);
    assert_int_equal(judge(i, in(bearer("Bearer test"), "any"), &admin, "any"), LKS_OK); /* 9f86... is of "test" */
    identity_free(i);
}

/* promise A5: an ambiguous line in a policy or token file is refused with its line number */
TEST(files_that_are_wrong_are_refused)
{
    static const struct {
        const char *policy, *tokens, *said;
    } cases[] = {
        {"StockService = READ\n", NULL, "line 1: StockService: must be in the section of a principal"},
        {"[a]\nStockService = SELL\n", NULL, "effects"},
        {"[a]\nStockServise = READ\n", NULL, "line 2: StockServise: must be a service of this server"},
        {"[a]\nlockstock.v2.StockService = READ\n", NULL, "must be a service of this server"},
        {"[a]\ncertificates = a.internal\n", NULL, "must be a service of this server"},
        {"[a]\nStockService =\n", NULL, "effects"},
        {"[a]\nnamespace =\n", NULL, "namespace"},
        {"[a]\nnamespace = x\nnamespace = y\n", NULL, "line 3: a: namespace: given twice"},
        {"[a]\nuid = root\n", NULL, "uid"},
        {"[a]\nuid = -1\n", NULL, "uid"},
        {"[a]\nuid = 99999999999\n", NULL, "uid"},
        {"[a]\ncertificate =\n", NULL, "certificate"},
        {"[a]\nnonsense\n", NULL, "line 2"},
        {"[a]\n* = READ\n", "abc a\n", "line 1"},
        {"[a]\n* = READ\n", "\n" DIGEST_OF_SESAME "0 a\n", "line 2"},
        {"[a]\n* = READ\n", DIGEST_OF_SESAME "\n", "line 1"},
        {"[a]\n* = READ\n", DIGEST_OF_SESAME " b\n", "no such principal"},
        {"[a]\n* = READ\n", DIGEST_OF_SESAME " a soon\n", "seconds"},
        {"[a]\n* = READ\n", DIGEST_OF_SESAME " a 1 2\n", "line 1"},
        {"[a]\n* = READ\n", DIGEST_OF_SESAME " a\n" DIGEST_OF_OPEN " a\n" DIGEST_OF_THIRD " a\n", "two tokens"},
        {"[a]\n* = READ\n", DIGEST_OF_SESAME " a 99999999999999999999\n", "seconds"},
        {"[a]\n* = READ\n", DIGEST_OF_SESAME " a -5\n", "seconds"},
        /* Ambiguous files. */
        {"[a]\ncertificate = x\n[b]\ncertificate = X\n", NULL, "may be given once, for one principal"},
        {"[a]\nuid = 5\n[b]\nuid = 05\n", NULL, "may be given once, for one principal"},
        {"[a]\n* = READ\n[b]\n* = READ\n", DIGEST_OF_SESAME " a\n" DIGEST_OF_SESAME " b\n",
         "line 2: a token may be given once"},
        {"[a]\n* = READ\n", DIGEST_OF_SESAME " a\n" DIGEST_OF_SESAME " a\n", "line 2: a token may be given once"},
        {"[a]\n* = READ\n", DIGEST_OF_NOTHING " a\n", "empty token"},
        {"[a]\n* = READ\n[" LONG_NAME "]\n* = READ\n", NULL, "48 bytes"},
        {"[a]\n" LONG_NAME " = READ\n", NULL, "48 bytes"},
        {"[a]\ncertificate = " BYTES_200 "\n", NULL, "line 2: too long"},
        {"[a]\n* = READ\n", "#" BYTES_200 BYTES_200 BYTES_200 "\n" DIGEST_OF_SESAME " a\n", "line 1: too long"},
    };
    identity *i = NULL;
    lks_error error;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *tokens = cases[c].tokens ? file("tokens", cases[c].tokens) : NULL;
        if (identity_load(file("policy", cases[c].policy), tokens, &i, &error) != LKS_INVALID_ARGUMENT ||
            !strstr(error.message, cases[c].said) || !strstr(error.message, dir))
            fail_msg("case %zu: %s", c, error.message);
        assert_null(strstr(error.message, DIGEST_OF_SESAME));
    }
    assert_int_equal(identity_load(NULL, file("tokens", ""), &i, &error), LKS_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "need a policy"));
    assert_int_equal(identity_load(dir, NULL, &i, &error), LKS_INVALID_ARGUMENT);
    assert_int_equal(identity_load(file("policy", "[a]\n* = READ\n"), dir, &i, &error), LKS_INVALID_ARGUMENT);
    assert_int_equal(identity_load("/nowhere/policy", NULL, &i, &error), LKS_INVALID_ARGUMENT);
    assert_int_equal(identity_load(file("policy", "[a]\n* = READ\n"), "/nowhere/tokens", &i, &error),
                     LKS_INVALID_ARGUMENT);
    assert_null(i);
}

/* promise K10: a caller without access does not learn that a method does not exist */
TEST(known_caller_is_known_without_a_method)
{
    identity *i = load("[shop]\ncertificate = shop.internal\nStockService = READ\n", NULL);
    assert_int_equal(judge(i, (credentials){.certificate = "shop.internal"}, NULL, NULL), LKS_OK);
    assert_int_equal(judge(i, (credentials){.certificate = "other.internal"}, NULL, NULL), LKS_UNAUTHENTICATED);
    assert_int_equal(judge(i, (credentials){0}, NULL, NULL), LKS_UNAUTHENTICATED);
    identity_free(i);
}

TEST(every_known_caller_may_ask_who_it_is)
{
    lks_error error;
    identity_verdict verdict;
    service_right right;
    identity *i = load("[shop]\nnamespace = eu\nStockService = READ, WRITE\n* = READ\n[other]\ncertificate = other\n",
                       DIGEST_OF_SESAME " shop 2000\n" DIGEST_OF_OPEN " shop\n");
    assert_int_equal(judge(i, (credentials){0}, &who_am_i, NULL), LKS_UNAUTHENTICATED);
    assert_int_equal(judge(i, (credentials){.certificate = "other"}, &reads, NULL), LKS_PERMISSION_DENIED);
    assert_int_equal(judge(i, (credentials){.certificate = "other"}, &who_am_i, NULL), LKS_OK);
    const credentials c = bearer("Bearer sesame");
    assert_int_equal(identity_admit(i, &c, &who_am_i, 1000, &verdict, &error), LKS_OK);
    assert_string_equal(verdict.caller.principal, "shop");
    assert_string_equal(verdict.caller.ns, "eu");
    assert_int_equal(verdict.caller.token_ends, 2000);
    assert_true(verdict.caller.right(verdict.caller.of, 0, &right));
    assert_string_equal(right.service, "StockService");
    assert_true(right.read && right.write && !right.admin);
    assert_true(verdict.caller.right(verdict.caller.of, 1, &right));
    assert_string_equal(right.service, "*");
    assert_true(right.read && !right.write && !right.admin);
    assert_false(verdict.caller.right(verdict.caller.of, 2, &right));
    assert_int_equal(identity_admit(i, &c, &who_am_i, 2000, &verdict, &error), LKS_UNAUTHENTICATED);
    assert_string_equal(verdict.caller.principal, "shop"); /* for the log */
    const credentials lasting = bearer("Bearer open");
    assert_int_equal(identity_admit(i, &lasting, &who_am_i, 1000, &verdict, &error), LKS_OK);
    assert_int_equal(verdict.caller.token_ends, 0);
    identity_free(i);
}

/* The servers of a store compare it. */
TEST(the_digest_of_the_policy_is_that_of_its_file)
{
    static const char text[] = "; a comment\n[shop]\n\n* = READ\n[last]";
    char expected[DIGEST_HEX_LEN + 1];
    identity *i = load(text, NULL);
    digest_hex(text, strlen(text), expected);
    assert_string_equal(identity_policy(i), expected);
    identity_free(i);
    i = NULL;
    lks_error error;
    assert_int_equal(identity_load(NULL, NULL, &i, &error), LKS_OK);
    assert_string_equal(identity_policy(i), "");
    identity_free(i);
}

/* One that was searched from the start for each line would take minutes. */
TEST(many_principals_are_read_and_found)
{
    enum { MANY = 100000 };
    const char *policy = file("policy", ""), *tokens = file("tokens", "");
    FILE *p = fopen(policy, "w"), *t = fopen(tokens, "w");
    identity *i = NULL;
    lks_error error;
    assert_true(p && t);
    for (int n = 0; n < MANY; n++) {
        fprintf(p, "[p%d]\ncertificate = C%d.internal\nStockService = READ\n", n, n);
        fprintf(t, "%064x p%d\n", n + 1, n);
    }
    fprintf(t, DIGEST_OF_SESAME " p%d\n", MANY - 1);
    fclose(p);
    fclose(t);
    if (identity_load(policy, tokens, &i, &error) != LKS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(judge(i, (credentials){.certificate = "c99998.INTERNAL"}, &reads, NULL), LKS_OK);
    assert_int_equal(judge(i, bearer("Bearer sesame"), &reads, NULL), LKS_OK);
    assert_int_equal(judge(i, bearer("Bearer open"), &reads, NULL), LKS_UNAUTHENTICATED);
    identity_free(i);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
