/* A client: a process that serves a quarter of a side's buyers. show starts itself anew for it, and may kill or freeze
 * it; another one then goes on with its buyers. */
#ifndef SHOW_CLIENT_H
#define SHOW_CLIENT_H

#define CLIENT_FLAG "--client" /* followed by SIDE INDEX, as numbers; the crowd is descriptor CLIENT_CROWD_FD */

enum { CLIENT_CROWD_FD = 3 };

/* Serves its buyers to the last. Returns an exit status. */
int client_main(int argc, char **argv);

#endif
