/* Text of messages is given as literals, members of a oneof by their setters: as C and as C++,
 * under every warning that such code could have. */
#include "import_public.lks_client.h"
#include "oneof_everything.lks.h"
#include "repeated_everything.lks.h"

int literals(void);

int literals(void)
{
    corpus_import_public_base_base base = CORPUS_IMPORT_PUBLIC_BASE_BASE_INIT;
    corpus_import_public_top top = CORPUS_IMPORT_PUBLIC_TOP_INIT;
    corpus_oneof_everything_one one = CORPUS_ONEOF_EVERYTHING_ONE_INIT;
    corpus_repeated_everything_many many = CORPUS_REPEATED_EVERYTHING_MANY_INIT;
    const char *texts[] = {"a", "b"};

    base.text = "text";
    many.a_string = texts;
    many.n_a_string = sizeof texts / sizeof *texts;
    corpus_import_public_top_set_first(&top, &base);
    corpus_oneof_everything_one_set_a_string(&one, "text");
    corpus_oneof_everything_one_set_a_bool(&one, true);
    corpus_oneof_everything_one_set_kind(&one, CORPUS_ONEOF_EVERYTHING_KIND_UNSPECIFIED);
    corpus_oneof_everything_one_set_self(&one, &one);
    return many.n_a_string == 2 && one.of_case == CORPUS_ONEOF_EVERYTHING_ONE_OF_SELF && top.first == &base &&
           corpus_oneof_everything_kind_name(one.kind) != texts[0];
}
