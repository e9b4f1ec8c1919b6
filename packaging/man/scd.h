/* Writes scdoc (scdoc(5)) on standard output. */
#ifndef LOCKSTOCK_MAN_SCD_H
#define LOCKSTOCK_MAN_SCD_H

#include <stddef.h>

/* Writes a text literally; `...` becomes bold. White space becomes one space, an empty line begins a paragraph; all
 * are indented by `tabs`. */
void scd_text(const char *text, int tabs);

/* The same for part of a line. */
void scd_words(const char *text);

/* Writes "*--name* _FORM_" and, indented below, the help. form may be "". */
void scd_item(const char *name, const char *form, const char *help);

/* ---- what a page's template names -------------------------------------------------- */

/* Each prints the replacement of its line. */
void man_commands(void);     /* commands of lockstock */
void man_flags(void);        /* flags of all commands */
void man_exits(void);        /* exit codes */
void man_settings(void);     /* settings of lockstockd as keys of a file */
void man_server_flags(void); /* ... and as flags */
void man_bench_flags(void);  /* flags of lockstock-bench */
void man_bench_scenarios(void);

/* Writes the page of a service, named as on the command line ("lock"). Returns 1 if there is none, or when out of
 * memory; else 0. */
int man_service(const char *service);

#endif
