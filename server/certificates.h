/* When the certificates of the settings end. */
#ifndef LOCKSTOCK_SERVER_CERTIFICATES_H
#define LOCKSTOCK_SERVER_CERTIFICATES_H

#include <stdbool.h>

#include "conditions.h"
#include "config.h"
#include "net/wires.h"
#include "store/store.h"

/* Writes what is to be said of the first one that has ended or ends soon, "" when there is none. Returns whether nobody
 * can be served for it. */
bool certificates_look(const settings *config, const wires *w, const store *st, char text[CONDITION_TEXT_BYTES]);

#endif
