/* Writes scdoc (scdoc(5)) on standard output. */
#ifndef LOCKSTOCK_MAN_SCD_H
#define LOCKSTOCK_MAN_SCD_H

#include <stddef.h>

/* As it stands, without what scdoc would read into it; `...` becomes bold. White space is one space each, an empty line
 * begins a paragraph of the same indentation: that many tabs. */
void scd_text(const char *text, int tabs);

/* The same for a part of a line. */
void scd_words(const char *text);

/* "*--name* _FORM_" and below, indented, what it is for. form "" = nothing. */
void scd_item(const char *name, const char *form, const char *help);

/* ---- what a page's template names -------------------------------------------------- */

/* Each prints what stands for its line. */
void man_commands(void);     /* of lockstock */
void man_flags(void);        /* ... that all commands have */
void man_exits(void);        /* ... how it ends */
void man_settings(void);     /* of lockstockd, as keys of a file */
void man_server_flags(void); /* ... as flags */
void man_bench_flags(void);  /* of lockstock-bench */
void man_bench_scenarios(void);

/* The page of a service, named as on the command line ("lock"). 0; 1: there is none, or no memory. */
int man_service(const char *service);

#endif
