/* The corpus, as a case of a program, which is what mutations need. */
/* promise GN8: values of nested enums may have the same names */
/* promise GN9: any name of a field or method compiles, or is a clash that is reported with file, line and both
 * origins */
/* promise GN10: generated code compiles without a warning as C11, C17 and C++17, also with literals as text */
#include "test.h"

TEST_WITH(code_for_odd_protos_compiles, NULL, NULL)
{
    assert_int_equal(system(CORPUS_COMMAND), 0);
}

TEST_MAIN()
