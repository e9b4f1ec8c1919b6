# Completion of lockstock for fish, made by `lockstock completion fish`.

function __lockstock_complete --description 'all words that may follow'
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found (lockstock completion -- $words[2..-1] $current 2>/dev/null)
    set -l before ''
    if string match -q -- '--*=*' $current
        set before (string replace -r -- '=.*' '=' $current)
    end
    if set -l dashes (contains -i -- -- $words) # a program follows
        complete -C (string join ' ' -- (string escape -- $words[(math $dashes + 1)..-1]) $current)
    else if test "$found" = @file
        printf '%s\n' $before(__fish_complete_path (string replace -- "$before" '' $current))
    else
        printf '%s\n' $before$found
    end
end

complete -c lockstock -f -a '(__lockstock_complete)'
