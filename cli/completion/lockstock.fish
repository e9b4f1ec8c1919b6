# Completion of lockstock for fish, made by `lockstock completion fish`.

# Lines of four fields, separated by tabs: the preceding words, or "-"; a word or a flag; the value of the flag, or "-"; help.
set -g __lockstock_rows (string split \n -- '@rows@')

function __lockstock_value --description 'the value of a flag' --argument-names word first second
    for under in "$first/$second" "$first" -
        set -l row (string match -- $under\t$word\t'*' $__lockstock_rows)
        if set -q row[1]
            string split -f 3 \t -- $row[1]
            return
        end
    end
    echo -
end

function __lockstock_found --description 'words or flags after the preceding words, with their help' --argument-names under pattern
    string replace -rf -- '^'(string escape --style=regex -- $under)'\t('$pattern')\t[^\t]*\t(.*)$' '$1'\t'$2' $__lockstock_rows
end

function __lockstock_complete --description 'all words that may follow'
    set -l current (commandline -ct)
    set -l first ''
    set -l second ''
    set -l value -
    set -l i 1
    for word in (commandline -opc)[2..-1]
        set i (math $i + 1)
        if test "$value" != -
            set value - # the word is the value of the flag before it
            continue
        end
        switch $word
            case -- # a program follows
                __fish_complete_subcommand --fcs-skip=$i
                return
            case '-*'
                set value (__lockstock_value $word "$first" "$second")
            case '*'
                if test -z "$first"
                    set first $word
                else if test -z "$second"
                    set second $word
                end
        end
    end
    set -l before ''
    if string match -q -- '--*=*' $current
        set before (string replace -r -- '=.*' '=' $current)
        set value (__lockstock_value (string replace -- = '' $before) "$first" "$second")
    end
    if test "$value" = FILE
        printf '%s\n' $before(__fish_complete_path (string replace -- "$before" '' $current))
    else if string match -qr -- '^[a-z]' $value
        printf '%s\n' $before(string split -- '|' $value)
    else if test "$value" = -; and string match -q -- '-*' $current
        for under in - "$first" "$first/$second"
            __lockstock_found "$under" '--[^\t]*'
        end
    else if test "$value" = -; and test -z "$first"
        __lockstock_found - '[^-][^\t]*'
    else if test "$value" = -; and test -z "$second"
        __lockstock_found "$first" '[^-][^\t]*'
    end
end

complete -c lockstock -f -a '(__lockstock_complete)'
