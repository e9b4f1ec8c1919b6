/* The scripts of cli/completion/, embedded by the build. */
#ifndef LOCKSTOCK_CLI_COMPLETION_H
#define LOCKSTOCK_CLI_COMPLETION_H

#include <stddef.h>

extern const unsigned char completion_bash[], completion_zsh[], completion_fish[];
extern const size_t completion_bash_len, completion_zsh_len, completion_fish_len;

#endif
