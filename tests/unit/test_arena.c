/* The arena: zeroed, aligned, apart, and given back at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdalign.h>
#include <string.h>

#include <lockstock/rpc/arena.h>

static lks_rpc_arena *arena;

static int make(void **state)
{
    (void)state;
    arena = lks_rpc_arena_new();
    return arena ? 0 : -1;
}

static int drop(void **state)
{
    (void)state;
    lks_rpc_arena_free(arena);
    return 0;
}

static void is_zero(const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        assert_int_equal(bytes[i], 0);
}

static void what_it_gives_is_zeroed_aligned_and_apart(void **state)
{
    static const size_t sizes[] = {1, 7, 16, 100, 4000, 5000, 3, 100000, 0, 33};
    enum { N = sizeof sizes / sizeof *sizes };
    unsigned char *given[N];
    (void)state;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < N; i++) {
            given[i] = lks_rpc_arena_alloc(arena, sizes[i]);
            assert_non_null(given[i]);
            assert_int_equal((uintptr_t)given[i] % alignof(max_align_t), 0);
            is_zero(given[i], sizes[i]);
            memset(given[i], (int)i + 1, sizes[i]);
        }
        for (size_t i = 0; i < N; i++)
            for (size_t k = 0; k < sizes[i]; k++)
                assert_int_equal(given[i][k], i + 1);
        lks_rpc_arena_reset(arena);
    }
}

static void after_a_reset_the_same_memory_serves_again(void **state)
{
    (void)state;
    void *first = lks_rpc_arena_alloc(arena, 100);
    for (int i = 0; i < 1000; i++)
        assert_non_null(lks_rpc_arena_alloc(arena, 100));
    lks_rpc_arena_reset(arena);
    assert_ptr_equal(lks_rpc_arena_alloc(arena, 100), first);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    assert_null(lks_rpc_arena_alloc(arena, SIZE_MAX));
    assert_null(lks_rpc_arena_alloc(arena, SIZE_MAX - 15));
    assert_null(lks_rpc_arena_copy(arena, "", SIZE_MAX));
    assert_non_null(lks_rpc_arena_alloc(arena, 1));
}

static void copies_end_in_a_nul(void **state)
{
    (void)state;
    assert_string_equal(lks_rpc_arena_copy(arena, "abcdef", 3), "abc");
    assert_string_equal(lks_rpc_arena_copy(arena, NULL, 0), "");
    assert_string_equal(lks_rpc_arena_printf(arena, "%s-%d", "x", 42), "x-42");
    assert_int_equal(strlen(lks_rpc_arena_printf(arena, "%5000d", 1)), 5000);
    lks_rpc_slice slice = lks_rpc_slice_of("abc");
    assert_int_equal(slice.len, 3);
    assert_memory_equal(slice.data, "abc", 3);
}

static void protobuf_c_can_live_in_it(void **state)
{
    (void)state;
    ProtobufCAllocator *allocator = lks_rpc_arena_allocator(arena);
    char *memory = allocator->alloc(allocator->allocator_data, 10);
    assert_non_null(memory);
    memory[9] = 'x';
    allocator->free(allocator->allocator_data, memory);
    assert_int_equal(memory[9], 'x');
}

static void freeing_none_is_fine(void **state)
{
    (void)state;
    lks_rpc_arena_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_it_gives_is_zeroed_aligned_and_apart, make, drop),
        cmocka_unit_test_setup_teardown(after_a_reset_the_same_memory_serves_again, make, drop),
        cmocka_unit_test_setup_teardown(impossible_sizes_are_refused, make, drop),
        cmocka_unit_test_setup_teardown(copies_end_in_a_nul, make, drop),
        cmocka_unit_test_setup_teardown(protobuf_c_can_live_in_it, make, drop),
        cmocka_unit_test(freeing_none_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
