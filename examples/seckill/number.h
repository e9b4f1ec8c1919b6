/* The numbers of a command line. */
#ifndef SECKILL_NUMBER_H
#define SECKILL_NUMBER_H

/* A number of 1 to max; 0 for anything else. */
long number_parse(const char *text, long max);

#endif
