/* A name that the test gives addresses to. It replaces getaddrinfo(3) in the program and in its libraries; other
 * hosts are looked up as always. Thread-safe. */
#ifndef LOCKSTOCK_TESTS_FAKE_NAMES_H
#define LOCKSTOCK_TESTS_FAKE_NAMES_H

#define FAKE_NAME "servers.test"

/* FAKE_NAME has these numeric addresses from now on, separated by spaces; "": it does not exist. */
void fake_name_is(const char *addresses);

#endif
