/* The scenes about locks, and about what happens once, as programs and tests run them: each plays what it shows,
 * compares all of it with what it claims, and writes both into a small table. */
#ifndef SECKILL_LOCK_SCENES_H
#define SECKILL_LOCK_SCENES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <lockstock/status.h>

typedef struct lock_setup {
    const char *urls;    /* of lockstockd; several, with commas between */
    const char *redis;   /* "unix:///path": the store of those; NULL = not known */
    const char *program; /* path of seckill, to be started as a holder or a worker */
    size_t waiters;
} lock_setup;

/* What a scene found. */
typedef struct lock_claims {
    FILE *table;
    bool good;     /* every claim held */
    char why[160]; /* the first that did not */
} lock_claims;

/* Holds `good` to be a claim of the scene. */
void lock_claim(lock_claims *claims, bool good, const char *format, ...) __attribute__((format(printf, 3, 4)));

typedef struct lock_scene {
    const char *name;
    /* LKS_OK means that it ran: claims->good says how it ended. */
    lks_code (*run)(const lock_setup *setup, lock_claims *claims, lks_error *error);
} lock_scene;

lks_code scene_outlast(const lock_setup *setup, lock_claims *claims, lks_error *error);
lks_code scene_holder(const lock_setup *setup, lock_claims *claims, lks_error *error);
lks_code scene_queue(const lock_setup *setup, lock_claims *claims, lks_error *error);
lks_code scene_naive(const lock_setup *setup, lock_claims *claims, lks_error *error);
lks_code scene_click(const lock_setup *setup, lock_claims *claims, lks_error *error);
lks_code scene_form(const lock_setup *setup, lock_claims *claims, lks_error *error);
lks_code scene_penalty(const lock_setup *setup, lock_claims *claims, lks_error *error);
lks_code scene_settle(const lock_setup *setup, lock_claims *claims, lks_error *error);

/* The last has no name. */
extern const lock_scene lock_scenes[];

/* A name that no other run has, of 16 characters. */
lks_code lock_run_id(char ret[17], lks_error *error);

#endif
