/* Watches when the certificates in the settings end. */
#ifndef LOCKSTOCK_SERVER_CERTIFICATES_H
#define LOCKSTOCK_SERVER_CERTIFICATES_H

#include <stdbool.h>

#include "conditions.h"
#include "config.h"
#include "net/wires.h"
#include "store/store.h"

/* Writes a warning about the first certificate that has ended or ends soon; "" if there is none. Returns true if no
 * client can connect because of it. */
bool certificates_look(const settings *config, const wires *w, const store *st, char text[CONDITION_TEXT_BYTES]);

#endif
