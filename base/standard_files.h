#ifndef LOCKSTOCK_BASE_STANDARD_FILES_H
#define LOCKSTOCK_BASE_STANDARD_FILES_H

/* Takes those of the descriptors 0, 1 and 2 that are closed, first of all: what is opened later, a connection say,
 * would be read and written as standard input, output or errors. To write there fails, as it did. */
void standard_files_hold(void);

#endif
