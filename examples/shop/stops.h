/* Points inside of a handler, at which scenes make happen what else happens rarely. They are set by the environment; without
 * that nothing is done.
 *
 *   SHOP_STOP=POINT:ORDER  once, when the order comes to the point, the process says "stopped" on stdout and stands still
 *                          until SIGCONT
 *   SHOP_MEET=yes          calls wait at "read" until there are two of the same order
 *   SHOP_GATE=yes          calls say "at the gate" at "read" and wait there for a line on stdin, which opens it for all */
#ifndef EXAMPLE_SHOP_STOPS_H
#define EXAMPLE_SHOP_STOPS_H

/* The points of a call: "read" (the shelf), "taken" (written), "paid". */
void stops_at(const char *point, const char *order);

#endif
