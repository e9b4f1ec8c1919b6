#compdef lockstock
# Completion of lockstock for zsh, made by `lockstock completion zsh`.

# Lines of four fields, separated by tabs: the preceding words, or "-"; a word or a flag; the value of the flag, or "-"; help.
_lockstock_rows='@rows@'

# Sets value to the form of a flag's value; empty if the flag is unknown.
_lockstock_value() {
  local under key
  for under in "$first/$second" "$first" -; do
    key="$under $1"
    value=$values[$key]
    if [[ -n $value ]]; then return; fi
  done
}

_lockstock() {
  local first='' second='' under word value help key prev=$words[CURRENT-1] i
  local -A values
  local -a found
  if [[ $words[CURRENT] == --*=* ]]; then
    prev=${words[CURRENT]%%=*}
    compset -P '*='
  fi
  while IFS=$'\t' read -r under word value help; do
    key="$under $word"
    values[$key]=$value
  done <<<$_lockstock_rows
  for ((i = 2; i < CURRENT; i++)); do
    word=$words[i]
    case $word in
    --) # a program follows
      words=("${(@)words[i+1,-1]}")
      ((CURRENT -= i))
      _normal
      return
      ;;
    -*)
      _lockstock_value $word
      if [[ -n $value && $value != - ]]; then ((i++)); fi
      ;;
    *)
      if [[ -z $first ]]; then
        first=$word
      elif [[ -z $second ]]; then
        second=$word
      fi
      ;;
    esac
  done
  _lockstock_value $prev
  case $value in
  FILE) _files; return ;;
  [a-z]*) found=(${(s:|:)value}) ;;
  ''|-)
    while IFS=$'\t' read -r under word value help; do
      if [[ $words[CURRENT] == -* ]]; then
        if [[ $word == -* && ($under == - || $under == $first || $under == $first/$second) ]]; then found+=("$word:$help"); fi
      elif [[ $word != -* && -z $second && $under == ${first:--} ]]; then
        found+=("$word${help:+:$help}")
      fi
    done <<<$_lockstock_rows
    ;;
  esac
  _describe word found
}

# compinit loads this file as a function; a shell may also source it.
if [[ $funcstack[1] == _lockstock ]]; then _lockstock "$@"; else compdef _lockstock lockstock; fi
