/* Servers with a lock store each, over one fake ensemble, on one loop whose time stands still until pass_ms. */
#ifndef LOCKSTOCK_TESTS_QUORUM_SCENE_H
#define LOCKSTOCK_TESTS_QUORUM_SCENE_H

#include "fake_ensemble.h"
#include "quorum/quorum_parts.h"
#include "quorum/nodes.h"
#include "quorum/paths.h"
#include "test.h"

enum { CALL_WORDS = 12, CALL_MS = 5000, LEASE_MS = 30000, SERVER_TEXT_BYTES = 2048 };
#define SCENE_SWEEP_MS UINT64_C(1000000000000) /* so that only server_sweep begins one */

typedef struct server {
    const char *id;
    quorum *q;
    zookeeper *z;
    char heard[SERVER_TEXT_BYTES]; /* messages, each with a newline */
    int listened;
    bool ready;
    char fault[256];
} server;

/* A call, and its only answer. */
typedef struct call {
    store_call of;
    char *words;
    lks_rpc_slice args[CALL_WORDS];
    int answers;
    lks_code code;
    lks_applied applied;
    char text[256]; /* the reply "BUSY 0 o 30000", or the message */
} call;

extern uv_loop_t loop;

extern server a, b;

int scene_setup(void **state);
int scene_setup_a(void **state);  /* with the server a */
int scene_teardown(void **state); /* closes what is open */

/* The server is READY when `up`. */
void server_open(server *s, const char *id, bool up);
void server_close(server *s);
/* A sweep begins. */
void server_sweep(server *s);

/* "function group argument...": '' is an empty argument. Frees itself at the end of the test, or by call_free. */
call *ask(server *s, const char *words);
void call_free(call *c);
call *acquire(server *s, const char *in, const char *token, const char *name);
call *park(server *s, const char *in, const char *token, const char *name);
call *release(server *s, const char *in, const char *token);

bool is_granted(const call *c);
/* It has one answer, which begins so. */
#define assert_says(c, words) assert_text_begins((c)->answers == 1 ? (c)->text : "(no answer)", words)
#define assert_text_begins(text, words) assert_memory_equal(text, words, strlen(words))
#define assert_ended(c, its_code, was_applied)                     \
    do {                                                           \
        assert_int_equal((c)->answers, 1);                         \
        assert_int_equal((c)->code, LKS_##its_code);               \
        assert_int_equal((c)->applied, LKS_APPLIED_##was_applied); \
    } while (0)

/* Runs a turn of the loop; then the oldest request is this one, "": there is none. */
void expects(server *s, const char *text);
/* That request is answered. */
void answers(server *s, const char *text);
/* Answers everything until there is nothing more to do. */
void settle_all(server *s);
/* Answers everything; then the call has ended. */
call *done(server *s, call *c);
void open_both(void); /* b beside a */
void pass_ms(server *s, uint64_t ms);

/* The node of "ns/<group>". */
const char *path_of_group(const char *in);
/* What it has; until the next call, and the end of the test. */
stored_group *group_in_node(const char *in);
/* Like an unknown server. */
void write_group(const char *in, const stored_group *s);

#endif
