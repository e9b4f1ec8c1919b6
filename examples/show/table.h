/* The end: the table, which is checked as it is made. */
#ifndef SHOW_TABLE_H
#define SHOW_TABLE_H

#include <stdbool.h>

#include <lockstock/channel.h>

#include "crowd.h"
#include "sale.h"

/* To be called when no client runs. Asks lockstock once more for each buyer that was told nothing yet, by the same order
 * id; compares what its buyers were told with the item, each order and the whole ledger (sale_check), and what each
 * side's were told with how many buyers there are. Prints the table and what it says, in `colour` or without.
 * True: all of it agrees for lockstock; false too when the server cannot be asked. */
bool table_print(crowd *c, flash_sale *sale, lks_channel *channel, bool colour);

#endif
