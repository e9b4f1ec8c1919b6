/* The version of everything in this tree; the build reads it from here. */
#ifndef LOCKSTOCK_VERSION_H
#define LOCKSTOCK_VERSION_H

#define LOCKSTOCK_VERSION "0.2.0"

#endif
