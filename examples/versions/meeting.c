#include "meeting.h"

void meeting_init(meeting *m, size_t members)
{
    *m = (meeting){.members = members};
    pthread_mutex_init(&m->mutex, NULL);
    pthread_cond_init(&m->all_here, NULL);
}

void meeting_destroy(meeting *m)
{
    pthread_cond_destroy(&m->all_here);
    pthread_mutex_destroy(&m->mutex);
}

static void go_on_if_all_are_here(meeting *m)
{
    if (m->here == m->members) {
        m->here = 0;
        m->round++;
        pthread_cond_broadcast(&m->all_here);
    }
}

void meeting_wait(meeting *m)
{
    pthread_mutex_lock(&m->mutex);
    unsigned long round = m->round;
    m->here++;
    go_on_if_all_are_here(m);
    while (m->round == round)
        pthread_cond_wait(&m->all_here, &m->mutex);
    pthread_mutex_unlock(&m->mutex);
}

void meeting_leave(meeting *m)
{
    pthread_mutex_lock(&m->mutex);
    m->members--;
    go_on_if_all_are_here(m);
    pthread_mutex_unlock(&m->mutex);
}
