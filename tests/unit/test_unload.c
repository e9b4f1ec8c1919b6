/* A program that loads the client library and unloads it again. */

#include <dlfcn.h>

#include "test.h"

/* A thread of the library may outlive the last channel for a moment: its code must stay where it is. */
TEST(the_client_library_stays_mapped_after_dlclose)
{
    void *library = dlopen(LIBLOCKSTOCK, RTLD_NOW | RTLD_LOCAL);

    if (!library)
        fail_msg("%s", dlerror());
    assert_int_equal(dlclose(library), 0);
    assert_non_null(dlopen(LIBLOCKSTOCK, RTLD_NOW | RTLD_NOLOAD));
}

TEST_MAIN()
