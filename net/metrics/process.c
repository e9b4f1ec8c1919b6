#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "net/metrics/metrics.h"

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

/* Field `at` of a file of /proc with numbers. */
static double proc_number(const char *path, const char *after, unsigned at)
{
    char line[1024];
    double number = 0;
    FILE *file = fopen(path, "re");

    if (!file)
        return 0;
    size_t len = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[len] = '\0';
    const char *text = after ? strrchr(line, after[0]) : line;
    for (unsigned i = 0; text && i < at; i++) {
        text = strchr(text, ' ');
        text = text ? text + 1 : NULL;
    }
    if (text)
        number = strtod(text, NULL);
    return number;
}

static double count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    double n = 0;

    if (!dir)
        return 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 3; /* ".", ".." and the directory itself */
}

/* /proc/self/stat counts the start in ticks since the machine started. */
static double start_time(void)
{
    enum { START_AFTER_NAME = 20 };
    struct timespec up;

    clock_gettime(CLOCK_BOOTTIME, &up);
    double ticks = proc_number("/proc/self/stat", ")", START_AFTER_NAME);
    return (double)(time(NULL) - up.tv_sec + (time_t)(ticks / (double)sysconf(_SC_CLK_TCK)));
}

void metrics_process(metrics_text *t)
{
    struct rusage used;
    struct rlimit files;

    getrusage(RUSAGE_SELF, &used);
    getrlimit(RLIMIT_NOFILE, &files);
    metrics_single(t, METRICS_CPU, seconds(used.ru_utime) + seconds(used.ru_stime));
    metrics_single(t, METRICS_RESIDENT, proc_number("/proc/self/statm", NULL, 1) * (double)sysconf(_SC_PAGESIZE));
    metrics_single(t, METRICS_FDS, count_descriptors());
    metrics_single(t, METRICS_FDS_MAX, (double)files.rlim_cur);
    metrics_single(t, METRICS_START, start_time());
}
