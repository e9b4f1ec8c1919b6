#!/usr/bin/env bash
# words.sh DIR
# Writes the .protos of the corpus that are long lists: words of C and C++ in each place where a .proto has a name.
set -euo pipefail
cd "$1"

keywords='
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await
co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
restrict return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile wchar_t while xor
xor_eq'
macros='
assert offsetof errno linux unix i386 stdin stdout stderr complex imaginary noreturn null eof va_start va_arg setjmp
isnan isinf signbit h_errno st_mtime sa_handler s6_addr math_errhandling major minor alloca htons tolower putc getc'

camel() { # words: VaStart of va_start
  sed -E 's/(^| |_)(.)/\1\U\2/g; s/_//g' <<<"$*"
}

# The beginning of a list.
begin() { # name [syntax]
  printf 'syntax = "%s";\n\npackage corpus.%s;\n\n' "${2:-proto3}" "$1"
}

numbered() { # type words: a field of each
  local word n=0
  for word in $2; do echo "  $1 $word = $((++n));"; done
}

fields() { # name type words [syntax]
  { begin "$1" "${4:-proto3}" && echo 'message Words {' && numbered "$2" "$3" && echo '}'; } >"$1.proto"
}

methods() { # name words
  local word
  {
    begin "$1"
    echo 'message Empty {} service Words {'
    for word in $2; do echo "  rpc $word(Empty) returns (Empty);"; done
    echo '}'
  } >"$1.proto"
}

without() { # words: keywords but these
  tr -s ' \n' '\n' <<<"$keywords" | grep -vxF "$(tr ' ' '\n' <<<"$1")" | grep .
}

fields keyword_fields int32 "$keywords"
fields keyword_fields_proto2 'optional int32' "$keywords" proto2
fields keyword_fields_repeated 'repeated string' "$keywords"
fields many_fields string "$(seq -f 'f%.0f' 0 300)"
methods keyword_methods "$(camel "$keywords")"
methods keyword_methods_small "$keywords"
methods macro_methods "$(camel "$macros")"
{
  begin macro_fields
  echo 'message Words {'
  numbered int32 "$macros"
  echo 'oneof errors { int32 math_error = 100; string text = 101; } }'
} >macro_fields.proto
{
  begin macro_members
  echo 'message Words { oneof stdio {'
  numbered bytes "$macros"
  echo '} }'
} >macro_members.proto
{
  begin keyword_enums
  for word in $(without 'bool double float'); do echo "enum $word { ${word^^}_ZERO = 0; }"; done
} >keyword_enums.proto
{ # protoc takes a field of a message called so for one of that type.
  begin keyword_messages
  for word in $(without 'bool double enum extern float'); do
    echo "message $word { .corpus.keyword_messages.$word again = 1; }"
  done
} >keyword_messages.proto
{
  begin keyword_oneofs
  n=0
  echo 'message Words {'
  for word in $keywords; do echo "  oneof $word { int32 in_$word = $((++n)); }"; done
  echo '} message Members { oneof choice {'
  numbered string "$keywords"
  echo '} }'
} >keyword_oneofs.proto
{
  begin keyword_values
  echo 'enum Word {'
  n=0
  for word in $keywords NULL EOF INT_MAX errno linux; do echo "  $word = $((n++));"; done
  echo '}'
} >keyword_values.proto
{ # Messages in messages.
  begin deep_nesting
  printf 'message L%d { ' {0..27}
  printf 'int32 x = 1; }'
  printf ' L%d down = 1; }' {27..1}
} >deep_nesting.proto
