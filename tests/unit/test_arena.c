/* The arena: zeroed, aligned, apart, and given back at once. */

#include <stdalign.h>

#include <lockstock/rpc/arena.h>

#include "test.h"
#include "arena_fixture.h"

static void is_zero(const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        assert_int_equal(bytes[i], 0);
}

TEST(memory_is_zeroed_aligned_and_apart)
{
    static const size_t sizes[] = {1, 7, 16, 100, 4000, 5000, 3, 100000, 0, 33};
    enum { N = sizeof sizes / sizeof *sizes };
    unsigned char *given[N];
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

TEST(reset_reuses_the_same_memory)
{
    void *first = lks_rpc_arena_alloc(arena, 100);
    for (int i = 0; i < 1000; i++)
        assert_non_null(lks_rpc_arena_alloc(arena, 100));
    lks_rpc_arena_reset(arena);
    assert_ptr_equal(lks_rpc_arena_alloc(arena, 100), first);
}

TEST(impossible_sizes_are_refused)
{
    assert_null(lks_rpc_arena_alloc(arena, SIZE_MAX));
    assert_null(lks_rpc_arena_alloc(arena, SIZE_MAX - 15));
    assert_null(lks_rpc_arena_copy(arena, "", SIZE_MAX));
    assert_non_null(lks_rpc_arena_alloc(arena, 1));
}

TEST(copies_end_in_a_nul)
{
    assert_string_equal(lks_rpc_arena_copy(arena, "abcdef", 3), "abc");
    assert_string_equal(lks_rpc_arena_copy(arena, NULL, 0), "");
    assert_string_equal(lks_rpc_arena_printf(arena, "%s-%d", "x", 42), "x-42");
    assert_int_equal(strlen(lks_rpc_arena_printf(arena, "%5000d", 1)), 5000);
    lks_rpc_slice slice = lks_rpc_slice_of("abc");
    assert_int_equal(slice.len, 3);
    assert_memory_equal(slice.data, "abc", 3);
}

TEST(protobuf_c_can_allocate_in_an_arena)
{
    ProtobufCAllocator *allocator = lks_rpc_arena_allocator(arena);
    char *memory = allocator->alloc(allocator->allocator_data, 10);
    assert_non_null(memory);
    memory[9] = 'x';
    allocator->free(allocator->allocator_data, memory);
    assert_int_equal(memory[9], 'x');
}

TEST_WITH(freeing_null_is_fine, NULL, NULL)
{
    lks_rpc_arena_free(NULL);
}

TEST_MAIN(.setup = make, .teardown = drop)
