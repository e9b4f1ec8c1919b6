/* The scenes that sell, as programs and tests run them. */
#ifndef SECKILL_SCENES_H
#define SECKILL_SCENES_H

#include "sale.h"

typedef struct sale_scene {
    const char *name;
    const char *title;
    sale_plan plan;     /* at full count */
    bool loses_replies; /* buyers are behind a network that loses each answer once */
    bool (*sell)(flash_sale *sale, lks_channel *channel, sale_result *result);
} sale_scene;

/* a, b, c; the last has no name. */
extern const sale_scene scenes[];

typedef struct scene_report {
    sale_result result;
    uint64_t replies_lost;
    int64_t elapsed_ms; /* of the selling */
} scene_report;

/* Runs one scene against the server at `url` by `plan` and checks it. LKS_OK
 * means that it ran: report->result.exact says how it ended. */
lks_code scene_run(const sale_scene *scene, const char *url, const sale_plan *plan, scene_report *report,
                   lks_error *error);

/* Prints a report as a small table. */
void scene_print(const sale_scene *scene, const sale_plan *plan, const scene_report *report);

#endif
