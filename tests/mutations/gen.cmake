# What keeps the generator's promises about guards.

# A guard in the skeleton
c_mutation(GN1 gen/services.c test_generated:a_binding_holds* [[    if (options.guard && method->request && method->response)]] [[    if (false)]])
c_mutation(GN1 gen/emit_guards.c test_generated:a_binding_holds* [[limit->fail_open ? "true" : "false"]] [["false"]])
c_mutation(GN1 gen/emit_guards.c test_generated:a_binding_holds* [[idempotency->key_alone ? "true" : "false"]] [["false"]])
c_mutation(GN1 gen/emit_guards.c test_generated:a_binding_holds* [["denied", guard->denied]] [["denied", "0"]])
c_mutation(GN1 gen/emit_guards.c test_generated:a_binding_holds* [["mismatch", guard->mismatch]] [["mismatch", guard->in_progress]])
c_mutation(GN1 gen/emit_guards.c test_generated:a_binding_holds* [["busy", guard->busy]] [["busy", "0"]])
c_mutation(GN1 gen/emit_guards.c test_generated:a_string* [[strchr("\"\\?", *c)]] [[strchr("\"\\", *c)]])
c_mutation(GN1 gen/emit_guards.c test_generated:a_string* [["\\%03o"]] [["\\x%x"]])
c_mutation(GN1 gen/options.c test_generated:options_that_are_set_apart*
  [[    guard->lock = read_part(]] [[    (void)read_part(]])
c_mutation(GN2 gen/options.c test_generated:*line_by_line [[    bool known = guard->base.n_unknown_fields == 0;]] [[    bool known = true;]])
c_mutation(GN2 gen/options.c test_generated:*line_by_line [[part->n_unknown_fields == 0]] [[true]])

# What is wrong with one
c_mutation(GN3 gen/guards.c test_generated:*line_by_line
  [[    if (!option->rate_limit && !option->idempotency && !option->lock)]] [[    if (false)]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[    if (n == 0)]] [[    if (false)]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line
  [[    if (*limit->policy == '\0' && limit->limit == 0 && limit->period_ms == 0) {]] [[    if (false) {]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[limit->limit != 0 || limit->period_ms != 0]] [[limit->limit != 0]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[limit->limit != 0 || limit->period_ms != 0]] [[limit->period_ms != 0]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[lock->n_keys > LOCKS_MAX]] [[false]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[several && *lock->group == '\0']] [[false]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[    bool several = n > 1;]] [[    bool several = false;]])
c_mutation(GN3 gen/paths.c test_generated:*line_by_line
  [[        ret->repeated |= paths_is_repeated(field);]] [[        ret->repeated = paths_is_repeated(field);]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[#define LIMIT_MAX 1000000000000LL]] [[#define LIMIT_MAX 1000000000001LL]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[#define PERIOD_MS_MAX 31622400000LL]] [[#define PERIOD_MS_MAX 31622400001LL]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[#define RETAIN_MS_MAX 2592000000LL]] [[#define RETAIN_MS_MAX 2592000001LL]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[    LEASE_MS_MIN = 10,]] [[    LEASE_MS_MIN = 9,]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[    LEASE_MS_MAX = 86400000,]] [[    LEASE_MS_MAX = 86400001,]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[    RETAIN_MS_MIN = 1000,]] [[    RETAIN_MS_MIN = 999,]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[    WAIT_MS_MAX = 86400000,]] [[    WAIT_MS_MAX = 86400001,]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[    NAME_BYTES_MAX = 128,]] [[    NAME_BYTES_MAX = 129,]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[NAME_BYTES_MAX - 2,]] [[NAME_BYTES_MAX,]])
c_mutation(GN3 gen/guards.c test_generated:*line_by_line [[255 - 2,]] [[255,]])

# Its paths
c_mutation(GN4 gen/paths.c test_generated:*line_by_line
  [[        if (field->type != GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_MESSAGE)]]
  [[        if (field->type == GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_BOOL)]])
c_mutation(GN4 gen/guards.c test_generated:*line_by_line [[    } else if (path.oneof) {]] [[    } else if (false) {]])
c_mutation(GN4 gen/guards.c test_generated:*line_by_line [[    } else if (!paths_is_key(path.field)) {]] [[    } else if (false) {]])
c_mutation(GN4 gen/paths.c test_generated:*line_by_line
  [[    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_FLOAT:]] "")
c_mutation(GN4 gen/paths.c test_generated:*line_by_line
  [[    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_DOUBLE:]] "")
c_mutation(GN4 gen/guards.c test_generated:*line_by_line [[strcmp(names[i], names[j]) == 0]] [[false]])

# What tells of a refusal
c_mutation(GN5 gen/guards.c test_generated:*line_by_line [[*name != '\0' && *at->option->outcome == '\0']] [[false]])
c_mutation(GN5 gen/guards.c test_generated:*line_by_line [[->number == 0) {]] [[->number == -1000) {]])
c_mutation(GN5 gen/guards.c test_generated:*line_by_line [[found && found->type == type]] [[found]])
c_mutation(GN5 gen/guards.c test_generated:*line_by_line [[ && !paths_is_repeated(found)]] "")
c_mutation(GN5 gen/guards.c test_generated:*line_by_line [[ && !found->has_oneof_index]] "")
c_mutation(GN5 gen/guards.c test_generated:*line_by_line [[    if (*option->outcome == '\0') {]] [[    if (false) {]])
c_mutation(GN5 gen/guards.c test_generated:*line_by_line
  [[    if (*option->outcome != '\0' && *denied == '\0']] [[    if (false && *denied == '\0']])

# Names
c_mutation(GN6 gen/emit_types.c test_generated:an_enum_names* [[return \"UNKNOWN\"]] [[return \"\"]])
c_mutation(GN6 gen/types.c test_generated:an_enum_names* [[    return len;]] [[    return 0;]])
c_mutation(GN7 gen/emit_types.c test_generated:a_setter* [[setter->chosen, setter->pb_case]] [[setter->chosen, "0"]])
c_mutation(GN8 gen/types.c test_corpus [[j != i && share_a_name(&file->enums[i], &file->enums[j])]] [[false]])
c_mutation(GN9 gen/repair.c test_corpus [[is_member(next) && mangle_is_left_by_protobuf_c(word, len) ? "_" : ""]] [[""]])
c_mutation(GN9 gen/emit_server.c test_corpus [[return (handlers->%s)(service]] [[return handlers->%s(service]])
c_mutation(GN9 gen/members.c test_corpus [[    define_member(at, chosen, pool_format(pool, "%s (its case)", where));]] "")
c_mutation(GN9 gen/members.c test_corpus [[    define_member(at, mangle_field(pool, field->name), where);]] "")
c_mutation(GN9 gen/members.c test_corpus [[    if (has_presence(at, field))]] [[    if (false)]])
c_mutation(GN9 gen/names.c test_corpus [[names->list[i].wanted && mangle_is_taken(names->list[i].name)]] [[false]])
c_mutation(GN10 gen/protobuf_c.c test_corpus [[        files[i].options = with_const_strings(pool, files[i].options);]] "")
c_mutation(GN10 gen/repair.c test_corpus [[is_struct ? "{{0, NULL}}" : "{0}"]] [["{0}"]])
c_mutation(GN10 gen/repair.c test_corpus [[fputs("__builtin_inff()", out);]] [[fputs("inf", out);]])
c_mutation(GN10 gen/repair.c test_corpus [[fputs("9223372036854775807ll - 1", out);]] [[fputs("9223372036854775808ll", out);]])
c_mutation(GN10 gen/repair.c test_corpus [[            fputs(between, out);]] [[            (void)between;]])
c_mutation(GN10 gen/emit.c test_corpus [[        if (repair_trigraph(c) > 0)
            fputc(' ', out);]] "")
c_mutation(GN10 gen/emit_types.c test_corpus [[#pragma GCC diagnostic ignored \"-Wdeprecated-declarations\"\n]] "")
