/* A storm of reservations: threads reserve, confirm, cancel, extend, return, adjust,
 * repeat, and let holds end, on two servers of one store; what each was told is
 * written down and compared with what the servers' own books say.
 *
 *   reservation_effects.c   one effect: sent, sent twice at once, sent again
 *   reservation_storm.c     the threads
 *   reservation_books.c     the ledger, replayed
 *   test_reservations.c     the tests; it alone asserts
 *
 * An order belongs to one thread until the storm is over; the others only repeat
 * effects of it that are done, from copies. */
#ifndef LOCKSTOCK_TESTS_RESERVATIONS_H
#define LOCKSTOCK_TESTS_RESERVATIONS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/v1/stock.lks_client.h>

enum {
    STORM_SERVERS = 2,
    STORM_GROUPS = 3,
    STORM_GOODS = 3, /* of a group: plenty, scarce, limited */
    STORM_LINES = STORM_GOODS,
    STORM_EFFECTS = 6, /* of an order */
    STORM_THREADS = 16,
    STORM_LIMIT = 4, /* of a buyer, of the limited goods */
    STORM_ID_MAX = 32,
    STORM_REPEATS = 256,
};

typedef enum effect_kind {
    EFFECT_RESERVE,
    EFFECT_DEDUCT,
    EFFECT_CONFIRM,
    EFFECT_EXTEND,
    EFFECT_CANCEL,
    EFFECT_RETURN,
    EFFECT_ADJUST,
    EFFECT_KINDS
} effect_kind;

/* What an answer says, of any kind. */
typedef struct told {
    lks_code code;
    int outcome; /* number of the method's own enum; 0 for Adjust */
    bool replayed;
    lks_order_state state;         /* of the order, where it is told */
    int32_t left[STORM_LINES];     /* Reserve, Deduct: available; Adjust: available, reserved, sold */
    int32_t returned[STORM_LINES]; /* of the order's lines, where it is told */
    int64_t version;               /* Adjust */
} told;

typedef struct effect {
    effect_kind kind;
    int server;      /* that was asked first */
    unsigned number; /* of its order; makes the id of a Return */
    bool reacquire;
    bool uncertain; /* an earlier sending was not answered */
    int32_t hold_ms;
    int32_t back[STORM_LINES]; /* Return: of each line; all 0 = all that is left */
    told first;
} effect;

typedef struct order_line {
    int good; /* of the order's group */
    int32_t quantity;
} order_line;

typedef struct order {
    bool is_adjustment; /* of lines[0].good by lines[0].quantity */
    int group, buyer, n_lines;
    order_line lines[STORM_LINES];
    int n_effects;
    effect effects[STORM_EFFECTS];
    /* What it is by what was told: */
    lks_order_state state; /* UNSPECIFIED: there is none, or it was cancelled before it came */
    bool buried;           /* cancelled before it came */
    bool ends;             /* RESERVED, by a hold that ends soon */
    int32_t returned[STORM_LINES];
} order;

/* Units that were asked for or told as done by Adjust: what a reader may see. */
typedef struct good {
    int64_t initial;
    atomic_llong adds_sent, adds_done, takes_sent, takes_done;
} good;

typedef struct repeat {
    size_t order;
    effect effect;
} repeat;

typedef struct storm {
    lks_channel *channels[STORM_SERVERS]; /* each tries its server first */
    lks_call_options options;
    bool is_lossy; /* answers are lost: a first answer may say replayed */
    size_t n_orders, n_buyers;
    order *orders;
    good goods[STORM_GROUPS][STORM_GOODS];
    atomic_size_t taken, done; /* orders begun, orders that no thread will touch again */
    atomic_bool over;
    atomic_size_t n_faults;                  /* the first one ends the storm */
    atomic_size_t outcomes[EFFECT_KINDS][8]; /* how often each was told first */
    atomic_size_t repeats, races, reads;     /* effects sent again; twice at once; looks at the items */
    pthread_mutex_t mutex;                   /* of all below */
    repeat ring[STORM_REPEATS];              /* effects for other threads to repeat */
    size_t n_ring;
    char fault[512]; /* the first */
} storm;

/* `n` orders, of which some become adjustments. False when out of memory. */
bool storm_open(storm *s, size_t n, uint64_t seed);
void storm_close(storm *s);

/* Writes a fault down: the test fails with the first. Any thread. */
void storm_fault(storm *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

const char *storm_group(int group);
const char *storm_good(int good);
int64_t storm_limit(int good);

/* ---- effects; any thread ---- */

/* Sends `e` of order `index` and sends it again until it is told. */
told effect_send(storm *s, size_t index, effect *e, int server);

/* Sends it to both servers at once; what was told first comes first. */
void effect_race(storm *s, size_t index, effect *e, told ret[2]);

/* Whether the answer says that something was changed; a refusal may change. */
bool told_effect(const effect *e, const told *t);

/* Sends an effect that was told before once more and compares. */
void effect_repeat(storm *s, size_t index, effect *e, int server);

/* ---- threads; all end by themselves ---- */

void *storm_worker(void *arg);  /* takes orders until none is left */
void *storm_checker(void *arg); /* after the storm: repeats each effect elsewhere, looks at each order */

typedef struct reader {
    storm *storm;
    int server;
    uint64_t seed;
} reader;

void *storm_reader(void *arg); /* reader: looks at the items until the storm is over */

/* ---- the books of a group ---- */

typedef struct book_line {
    int32_t reserved, sold, returned;
    lks_ledger_kind last; /* what happened to it last */
} book_line;

typedef struct books {
    storm *storm;
    int group;
    char last[64]; /* id of the last entry read */
    size_t entries;
    size_t kinds[10]; /* how often each */
    int64_t available[STORM_GOODS], reserved[STORM_GOODS], sold[STORM_GOODS];
    int32_t *held;    /* [buyer][good] */
    book_line *lines; /* [order][line] */
} books;

bool books_open(books *b, storm *s, int group);
void books_close(books *b);

/* Thread: follows the ledger until the storm is over and every hold has ended. */
void *books_follow(void *arg);

/* Reads on to the end once; how many entries there were. */
size_t books_read(books *b, int server);

/* Compares with what the threads were told of the group's orders. */
void books_compare(books *b);

#endif
