/* The same for the library that tests load, whose clock can be moved. */
#define LOCKSTOCK_TEST_CLOCK
#include "test_functions_library.c"
