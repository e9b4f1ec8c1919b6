/* lockstockd's sink: `callers` admit calls, `dispatch` runs them. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_INTAKE_H
#define LOCKSTOCK_SERVER_INTAKE_H

#include "calls/callers.h"
#include "calls/dispatch.h"
#include "net/sink.h"

typedef struct intake {
    callers *callers;
    dispatch *dispatch;
} intake;

/* Returns the sink. `i` and its two members must outlive it. */
sink intake_sink(intake *i);

#endif
