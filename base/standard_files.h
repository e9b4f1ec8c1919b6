#ifndef LOCKSTOCK_BASE_STANDARD_FILES_H
#define LOCKSTOCK_BASE_STANDARD_FILES_H

/* Opens those of the descriptors 0, 1 and 2 that are closed; call it first. Otherwise a descriptor that is opened
 * later, such as a connection, would be used as standard input, output or errors. Writing there still fails. */
void standard_files_hold(void);

#endif
