/* Threads that wait for each other again and again, while some of them leave: so a race takes place every time. */
#ifndef EXAMPLE_VERSIONS_MEETING_H
#define EXAMPLE_VERSIONS_MEETING_H

#include <pthread.h>
#include <stddef.h>

typedef struct meeting {
    pthread_mutex_t mutex;
    pthread_cond_t all_here;
    size_t members, here;
    unsigned long round;
} meeting;

void meeting_init(meeting *m, size_t members);
void meeting_destroy(meeting *m);

/* Waits until all who have not left are here. */
void meeting_wait(meeting *m);

/* Is not waited for any more. */
void meeting_leave(meeting *m);

#endif
