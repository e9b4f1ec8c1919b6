/* Named points at which the consumer may be killed on purpose. */
#ifndef EXAMPLE_LEDGER_HALT_H
#define EXAMPLE_LEDGER_HALT_H

/* With LEDGER_HALT=<point>:<n> in the environment the n-th call for that point says
 * "halted at <point>" on stdout and never returns. */
void halt_at(const char *point);

#endif
