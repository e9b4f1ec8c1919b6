/* lockstock completion SHELL: prints a script that completes commands, flags and what these take. It is made from the
 * grammar, and needs no lockstock while it runs.
 *
 * A script has functions with one `case` each, whose rows come from the grammar, and one that looks at what was typed. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "commands.h"
#include "grammar.h"
#include "help.h"

/* Inside single quotes of all three shells. */
static void print_quoted(const char *text, char also)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (*text == also)
            printf("\\%c", also);
        else
            putchar(*text);
}

/* "a|b" as "a b". */
static void print_choices(const char *form)
{
    for (; *form; form++)
        putchar(*form == '|' ? ' ' : *form);
}

/* The pattern of a `case` row for "FIRST SECOND". */
static void print_pattern(const grammar_command *c)
{
    if (c->second[0])
        printf("  '%s %s')", c->first, c->second);
    else
        printf("  '%s '*)", c->first);
}

static void print_names(const grammar_flag *flags, size_t n, bool only_with_value)
{
    for (size_t i = 0; i < n; i++)
        if (!only_with_value || flags[i].form[0])
            printf(" --%s", flags[i].name);
}

/* Words, each once. */
typedef struct listing {
    const char *only; /* seconds of this first; NULL: the first ones */
    void (*print)(const char *word, const char *help);
    char seen[128][WORDS_BYTES];
    size_t n;
} listing;

/* False: it was seen. */
static bool see(listing *l, const char *word)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->seen[i], word) == 0)
            return false;
    if (l->n < sizeof l->seen / sizeof *l->seen)
        strcpy(l->seen[l->n++], word);
    return true;
}

static void list_word(void *arg, const grammar_command *c)
{
    listing *l = arg;
    const char *word = l->only ? c->second : c->first;

    if ((!l->only || strcmp(l->only, c->first) == 0) && *word && see(l, word))
        l->print(word, l->only || !c->second[0] ? c->help : "");
}

static bool list_words(const char *only, void (*print)(const char *word, const char *help), listing *ret)
{
    *ret = (listing){.only = only, .print = print};
    return grammar_each(list_word, ret);
}

static void print_nothing(const char *word, const char *help)
{
    (void)word;
    (void)help;
}

/* ---- rows of bash and zsh -------------------------------------------------------------- */

/* How a shell is given a list of words. */
typedef struct word_list {
    const char *opens, *closes;
    void (*print)(const char *word, const char *help);
} word_list;

/* What may follow a command, and be given to its flags. */
static void print_choice_rows(void *arg, const grammar_command *c)
{
    const word_list *list = arg;

    if (!c->second[0] && grammar_has_choices(c->form)) {
        printf("  '%s '*' '*) %s", c->first, list->opens);
        print_choices(c->form);
        printf("%s ;;\n", list->closes);
    }
    for (size_t i = 0; i < c->n_flags; i++) {
        if (!grammar_has_choices(c->flags[i].form))
            continue;
        printf("  '%s %s --%s') %s", c->first, c->second, c->flags[i].name, list->opens);
        print_choices(c->flags[i].form);
        printf("%s ;;\n", list->closes);
    }
}

/* The first words, and of each those that follow it. */
static bool print_word_rows(const word_list *list)
{
    listing firsts, seconds;
    bool good;

    printf("  '') %s", list->opens);
    good = list_words(NULL, list->print, &firsts);
    printf("%s ;;\n", list->closes);
    for (size_t i = 0; i < firsts.n && good; i++) {
        good = list_words(firsts.seen[i], print_nothing, &seconds);
        if (seconds.n == 0)
            continue;
        printf("  %s) %s", firsts.seen[i], list->opens);
        good = list_words(firsts.seen[i], list->print, &seconds);
        printf("%s ;;\n", list->closes);
    }
    return good;
}

/* ---- bash ---------------------------------------------------------------------------- */

static void print_word(const char *word, const char *help)
{
    (void)help;
    printf(" %s", word);
}

static void bash_flags(void *arg, const grammar_command *c)
{
    (void)arg;
    if (c->n_flags == 0)
        return;
    print_pattern(c);
    printf(" flags+='");
    print_names(c->flags, c->n_flags, false);
    printf("' takes+='");
    print_names(c->flags, c->n_flags, true);
    printf(" ' ;;\n");
}

static void print_files(const grammar_flag *common, size_t n, const char *before, const char *between)
{
    bool first = true;

    for (size_t i = 0; i < n; i++)
        if (strcmp(common[i].form, "FILE") == 0) {
            printf("%s%s--%s", first ? "" : between, before, common[i].name);
            first = false;
        }
}

static bool print_bash(const grammar_flag *common, size_t n)
{
    word_list list = {.opens = "words='", .closes = "'", .print = print_word};
    bool good;

    printf("# Completion of lockstock for bash, made by `lockstock completion bash`.\n\n"
           "_lockstock_flags() { # first second; fills in flags, and takes: those that want a value\n"
           "  flags='");
    print_names(common, n, false);
    printf("' takes='");
    print_names(common, n, true);
    printf(" '\n  case \"$1 $2\" in\n");
    good = grammar_each(bash_flags, NULL);
    printf("  esac\n}\n\n"
           "_lockstock_choices() { # first second flag; fills in words\n"
           "  words=\n  case \"$1 $2 $3\" in\n");
    good = good && grammar_each(print_choice_rows, &list);
    printf("  esac\n}\n\n"
           "_lockstock_words() { # first; fills in words\n  words=\n  case $1 in\n");
    good = good && print_word_rows(&list);
    printf("  esac\n}\n\n"
           "_lockstock() {\n"
           "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "  local first='' second='' flags takes words word i\n"
           "  COMPREPLY=()\n"
           "  # --flag=value is three words: the flag, =, the value\n"
           "  if [[ $cur == = ]]; then\n"
           "    cur=\n"
           "  elif [[ $prev == = ]] && ((COMP_CWORD > 2)); then\n"
           "    prev=${COMP_WORDS[COMP_CWORD-2]}\n"
           "  fi\n"
           "  _lockstock_flags '' ''\n"
           "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "    word=${COMP_WORDS[i]}\n"
           "    case $word in\n"
           "    --) # a program follows\n"
           "      if ((i + 1 == COMP_CWORD)); then\n"
           "        mapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
           "      else\n"
           "        compopt -o filenames 2>/dev/null\n"
           "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
           "      fi\n"
           "      return\n"
           "      ;;\n"
           "    =) ((i++)) ;;\n"
           "    -*) if [[ $takes == *\" $word \"* && ${COMP_WORDS[i+1]} != = ]]; then ((i++)); fi ;;\n"
           "    *)\n"
           "      if [[ -z $first ]]; then\n"
           "        first=$word\n"
           "      elif [[ -z $second ]]; then\n"
           "        second=$word\n"
           "      fi\n"
           "      _lockstock_flags \"$first\" \"$second\"\n"
           "      ;;\n"
           "    esac\n"
           "  done\n"
           "  if [[ $takes == *\" $prev \"* ]]; then\n"
           "    case $prev in\n"
           "    ");
    print_files(common, n, "", "|");
    printf(")\n"
           "      compopt -o filenames 2>/dev/null\n"
           "      mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
           "      return\n"
           "      ;;\n"
           "    esac\n"
           "    _lockstock_choices \"$first\" \"$second\" \"$prev\"\n"
           "  elif [[ $cur == -* ]]; then\n"
           "    words=$flags\n"
           "  elif [[ -z $second ]]; then\n"
           "    _lockstock_words \"$first\"\n"
           "    if [[ -z $words ]]; then _lockstock_choices \"$first\" '' ''; fi\n"
           "  fi\n"
           "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
           "}\n\n"
           "complete -F _lockstock lockstock\n");
    return good;
}

/* ---- zsh ----------------------------------------------------------------------------- */

static void zsh_flag_list(const grammar_flag *flags, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        printf(" '--%s:", flags[i].name);
        print_quoted(flags[i].help, '\0');
        putchar('\'');
    }
}

static void zsh_flags(void *arg, const grammar_command *c)
{
    (void)arg;
    if (c->n_flags == 0)
        return;
    print_pattern(c);
    printf("\n    flags+=(");
    zsh_flag_list(c->flags, c->n_flags);
    printf(")\n    takes+=(");
    print_names(c->flags, c->n_flags, true);
    printf(") ;;\n");
}

static void zsh_word(const char *word, const char *help)
{
    printf(" '%s", word);
    if (*help) {
        putchar(':');
        print_quoted(help, '\0');
    }
    putchar('\'');
}

static bool print_zsh(const grammar_flag *common, size_t n)
{
    word_list list = {.opens = "choices=(", .closes = ")", .print = zsh_word};
    bool good;

    printf("#compdef lockstock\n"
           "# Completion of lockstock for zsh, made by `lockstock completion zsh`.\n\n"
           "_lockstock_flags() { # first second; fills in flags, and takes: those that want a value\n"
           "  flags=(");
    zsh_flag_list(common, n);
    printf(")\n  takes=(");
    print_names(common, n, true);
    printf(")\n  case \"$1 $2\" in\n");
    good = grammar_each(zsh_flags, NULL);
    printf("  esac\n}\n\n"
           "_lockstock_choices() { # first second flag; fills in choices\n"
           "  choices=()\n  case \"$1 $2 $3\" in\n");
    good = good && grammar_each(print_choice_rows, &list);
    printf("  esac\n}\n\n"
           "_lockstock_words() { # first; fills in choices\n  choices=()\n  case $1 in\n");
    good = good && print_word_rows(&list);
    printf("  esac\n}\n\n"
           "_lockstock() {\n"
           "  local first='' second='' word='' prev=$words[CURRENT-1] i\n"
           "  local -a flags takes choices\n"
           "  if [[ $words[CURRENT] == --*=* ]]; then\n"
           "    prev=${words[CURRENT]%%%%=*}\n"
           "    compset -P '*='\n"
           "  fi\n"
           "  _lockstock_flags '' ''\n"
           "  for ((i = 2; i < CURRENT; i++)); do\n"
           "    word=$words[i]\n"
           "    case $word in\n"
           "    --) # a program follows\n"
           "      words=(\"${(@)words[i+1,-1]}\")\n"
           "      ((CURRENT -= i))\n"
           "      _normal\n"
           "      return\n"
           "      ;;\n"
           "    -*) if ((${takes[(Ie)$word]})); then ((i++)); fi ;;\n"
           "    *)\n"
           "      if [[ -z $first ]]; then\n"
           "        first=$word\n"
           "      elif [[ -z $second ]]; then\n"
           "        second=$word\n"
           "      fi\n"
           "      _lockstock_flags \"$first\" \"$second\"\n"
           "      ;;\n"
           "    esac\n"
           "  done\n"
           "  if ((${takes[(Ie)$prev]})); then\n"
           "    case $prev in\n"
           "    ");
    print_files(common, n, "", "|");
    printf(") _files; return ;;\n"
           "    esac\n"
           "    _lockstock_choices \"$first\" \"$second\" \"$prev\"\n"
           "  elif [[ $words[CURRENT] == -* ]]; then\n"
           "    _describe -o flag flags\n"
           "    return\n"
           "  elif [[ -z $second ]]; then\n"
           "    _lockstock_words \"$first\"\n"
           "    if ((! $#choices)); then _lockstock_choices \"$first\" '' ''; fi\n"
           "  fi\n"
           "  _describe word choices\n"
           "}\n\n"
           "# Loaded as a function by compinit, or read by a shell.\n"
           "if [[ $funcstack[1] == _lockstock ]]; then _lockstock \"$@\"; else compdef _lockstock lockstock; fi\n");
    return good;
}

/* ---- fish ---------------------------------------------------------------------------- */

/* Up to the value: `complete -c lockstock -n 'CONDITION'`. */
static void fish_begin(const grammar_command *c)
{
    printf("complete -c lockstock");
    if (c)
        printf(" -n '__lockstock_is %s%s%s'", c->first, c->second[0] ? " " : "", c->second);
}

static void fish_help(const char *help)
{
    if (!*help)
        return;
    printf(" -d '");
    print_quoted(help, '\\');
    putchar('\'');
}

static void fish_flag(const grammar_command *c, const grammar_flag *flag)
{
    fish_begin(c);
    printf(" -l %s", flag->name);
    if (strcmp(flag->form, "FILE") == 0)
        printf(" -rF");
    else if (flag->form[0])
        printf(" -x");
    if (grammar_has_choices(flag->form)) {
        printf(" -a '");
        print_choices(flag->form);
        putchar('\'');
    }
    fish_help(flag->help);
    putchar('\n');
}

static void fish_command(void *arg, const grammar_command *c)
{
    (void)arg;
    if (c->second[0]) {
        printf("complete -c lockstock -n '__lockstock_is %s; and __lockstock_has 1' -a %s", c->first, c->second);
        fish_help(c->help);
        putchar('\n');
    } else if (grammar_has_choices(c->form)) {
        printf("complete -c lockstock -n '__lockstock_is %s; and __lockstock_has 1' -a '", c->first);
        print_choices(c->form);
        printf("'\n");
    }
    for (size_t i = 0; i < c->n_flags; i++)
        fish_flag(c, &c->flags[i]);
    if (c->runs_program)
        printf("complete -c lockstock -n '__lockstock_is %s%s%s; and contains -- -- (commandline -opc)' -xa "
               "'(__fish_complete_subcommand --fcs-skip=(math (contains -i -- -- (commandline -opc))))'\n",
               c->first, c->second[0] ? " " : "", c->second);
}

static void fish_takes(void *arg, const grammar_command *c)
{
    for (size_t i = 0; i < c->n_flags; i++)
        if (c->flags[i].form[0] && see(arg, c->flags[i].name))
            printf(" --%s", c->flags[i].name);
}

static void fish_first(const char *word, const char *help)
{
    printf("complete -c lockstock -n '__lockstock_has 0' -a %s", word);
    fish_help(help);
    putchar('\n');
}

static bool print_fish(const grammar_flag *common, size_t n)
{
    listing firsts, takes = {.n = 0};
    bool good;

    printf("# Completion of lockstock for fish, made by `lockstock completion fish`.\n\n"
           "function __lockstock_words --description 'the words so far, without flags and what these take'\n"
           "    set -l takes");
    print_names(common, n, true);
    good = grammar_each(fish_takes, &takes);
    printf("\n    set -l skips 0\n"
           "    for word in (commandline -opc)[2..-1]\n"
           "        if test $skips = 1\n"
           "            set skips 0\n"
           "        else if test $word = --\n"
           "            break\n"
           "        else if contains -- $word $takes\n"
           "            set skips 1\n"
           "        else if not string match -q -- '-*' $word\n"
           "            echo $word\n"
           "        end\n"
           "    end\n"
           "end\n\n"
           "function __lockstock_has --description 'as many words, before the one that is typed'\n"
           "    test (count (__lockstock_words)) = $argv[1]; and not contains -- -- (commandline -opc)\n"
           "end\n\n"
           "function __lockstock_is --description 'the first words'\n"
           "    set -l words (__lockstock_words)\n"
           "    set -l n (count $argv)\n"
           "    test (count $words) -ge $n; and test \"$words[1..$n]\" = \"$argv\"\n"
           "end\n\n"
           "complete -c lockstock -f\n");
    for (size_t i = 0; i < n; i++)
        fish_flag(NULL, &common[i]);
    good = good && list_words(NULL, fish_first, &firsts);
    return good && grammar_each(fish_command, NULL);
}

/* ---- the command --------------------------------------------------------------------- */

exit_code completion_command(cli *c, arguments *args)
{
    static const struct {
        const char *shell;
        bool (*print)(const grammar_flag *common, size_t n);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    grammar_flag common[GRAMMAR_FLAGS_MAX];
    const char *shell = NULL;

    if (!cli_take_all(&(const option_set){0}, c, args, &shell))
        return EXIT_USAGE;
    if (c->help)
        return help_command("completion");
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (shell && strcmp(shells[i].shell, shell) == 0)
            return shells[i].print(common, grammar_common(common)) ? EXIT_DONE : EXIT_OTHER;
    return exits_wrong(shell ? shell : "completion", "must be bash, zsh or fish");
}
