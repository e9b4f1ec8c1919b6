/* The corpus, as a case of a program, which is what mutations need. */
#include "test.h"

TEST_WITH(what_is_made_of_odd_protos_compiles_and_the_rest_is_refused, NULL, NULL)
{
    assert_int_equal(system(CORPUS_COMMAND), 0);
}

TEST_MAIN()
