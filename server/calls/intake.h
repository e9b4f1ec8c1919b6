/* lockstockd's sink: callers give room, dispatch runs. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_INTAKE_H
#define LOCKSTOCK_SERVER_INTAKE_H

#include "calls/callers.h"
#include "calls/dispatch.h"
#include "net/sink.h"

typedef struct intake {
    callers *callers;
    dispatch *dispatch;
} intake;

/* Its sink. Both parts of `i` must outlive what the sink is given to. */
sink intake_sink(intake *i);

#endif
