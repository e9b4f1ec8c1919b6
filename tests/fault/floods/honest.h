/* Peers that look like attackers and are none: each fails its test by cmocka's means. */
#ifndef LOCKSTOCK_TESTS_FLOODS_HONEST_H
#define LOCKSTOCK_TESTS_FLOODS_HONEST_H

/* A client whose calls time out, 100 a second for 20 s (fast: as many as only a bucket of 200 a second bears),
 * keeps its connection. */
void honest_deadlines(void **state);

/* One stream more than allowed is REFUSED_STREAM; the others go on. */
void honest_one_stream_too_many(void **state);

#endif
