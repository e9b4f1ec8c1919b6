/* Named points at which the consumer may be stopped on purpose, and then killed. */
#ifndef EXAMPLE_LEDGER_HALT_H
#define EXAMPLE_LEDGER_HALT_H

/* With LEDGER_HALT=<point>:<n> in the environment the n-th call for that point says
 * "halted at <point>" on stdout and stops the process, until SIGCONT. */
void halt_at(const char *point);

#endif
