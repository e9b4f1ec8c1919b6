/* The words of the command line. */
/* promise CL5 */
#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/ratelimit.lks.h>
#include <lockstock/v1/stock.lks.h>

#include "cli/words.h"
#include "test.h"

static char word[WORDS_BYTES];

static const ProtobufCFieldDescriptor *field(const ProtobufCMessageDescriptor *type, const char *name)
{
    const ProtobufCFieldDescriptor *found = protobuf_c_message_descriptor_get_field_by_name(type, name);
    assert_non_null(found);
    return found;
}

static bool means(const char *text, const ProtobufCFieldDescriptor *of)
{
    return words_mean_field(text, strlen(text), of);
}

TEST(fields_have_names_for_people)
{
    const ProtobufCFieldDescriptor *lease = field(&lockstock__v1__acquire_request__descriptor, "lease_ms");
    const ProtobufCFieldDescriptor *lines = field(&lockstock__v1__deduct_request__descriptor, "lines");
    const ProtobufCFieldDescriptor *order = field(&lockstock__v1__deduct_request__descriptor, "order_id");
    const ProtobufCFieldDescriptor *at = field(&lockstock__v1__ledger_entry__descriptor, "at_ms");

    words_of_field(lease, word);
    assert_string_equal(word, "lease");
    assert_true(means("lease", lease) && means("lease-ms", lease));
    assert_false(means("leas", lease) || means("lease-", lease) || means("LEASE", lease));
    assert_true(means("line", lines) && means("lines", lines));
    assert_true(means("order", order) && means("order-id", order));
    assert_true(words_is_duration(lease));
    assert_false(words_is_duration(at) || words_is_duration(order));
    words_of_camel("ForceRelease", strlen("ForceRelease"), word);
    assert_string_equal(word, "force-release");
}

TEST(enums_have_words)
{
    const ProtobufCEnumDescriptor *type = &lockstock__v1__algorithm__descriptor;
    int value = 0;

    words_of_enum(type, LKS_ALGORITHM_TOKEN_BUCKET, word);
    assert_string_equal(word, "token-bucket");
    words_of_enum(type, 77, word);
    assert_string_equal(word, "77");
    assert_true(words_find_enum(type, "sliding-log", &value));
    assert_int_equal(value, LKS_ALGORITHM_SLIDING_LOG);
    assert_true(words_find_enum(type, "ALGORITHM_FIXED_WINDOW", &value));
    assert_int_equal(value, LKS_ALGORITHM_FIXED_WINDOW);
    assert_false(words_find_enum(type, "bucket", &value));
}

TEST(width_is_columns_of_a_terminal)
{
    assert_int_equal(words_width("caf\xc3\xa9"), 4);
    assert_int_equal(words_width("e\xcc\x81"), 1);                      /* e and its accent */
    assert_int_equal(words_width("\xe6\x97\xa5\xe6\x9c\xac"), 4);       /* Japan, in its own writing */
    assert_int_equal(words_width("\xed\x95\x9c\xf0\x9f\x98\x80!"), 5);  /* a syllable of Korean, a face */
    assert_int_equal(words_width("\xef\xbc\xa1\xef\xbd\xb1"), 3);       /* a full-width letter, a half-width one */
    assert_int_equal(words_fitting("a\xe6\x97\xa5\xe6\x9c\xac", 4), 4); /* bytes of what fits into 4 columns */
    assert_int_equal(words_fitting("a\xe6\x97\xa5\xe6\x9c\xac", 5), 7);
}

TEST(text_of_others_has_no_control_characters)
{
    char shown[16];

    words_printable("a\x1b[m\n\x7f", shown, sizeof shown);
    assert_string_equal(shown, "a?[m??");
    words_printable("\xc2\x9b\xff\xc3", shown, sizeof shown);
    assert_string_equal(shown, "????");
    words_printable("naïve \xf0\x9f\x94\x92", shown, sizeof shown);
    assert_string_equal(shown, "naïve \xf0\x9f\x94\x92");
    assert_int_equal(words_width(shown), 8);
    words_printable("ééé", shown, 4);
    assert_string_equal(shown, "é");
}

TEST_MAIN()
