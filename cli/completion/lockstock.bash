# Completion of lockstock for bash, made by `lockstock completion bash`.

# Lines of four fields, separated by tabs: the preceding words, or "-"; a word or a flag; the value of the flag, or "-"; help.
_lockstock_rows='@rows@'

# Sets value to the form of a flag's value; empty if the flag is unknown.
_lockstock_value() {
  local under
  for under in "$first/$second" "$first" -; do
    value=${values[$under $1]-}
    if [[ -n $value ]]; then return; fi
  done
}

_lockstock() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local first='' second='' under word value i found=''
  local -A values
  COMPREPLY=()
  # bash splits --flag=value into the flag, = and the value.
  if [[ $cur == = ]]; then
    cur=
  elif [[ $prev == = ]] && ((COMP_CWORD > 2)); then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  while IFS=$'\t' read -r under word value _; do
    values[$under $word]=$value
  done <<<"$_lockstock_rows"
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case $word in
    --) # a program follows
      if ((i + 1 == COMP_CWORD)); then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
      else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      fi
      return
      ;;
    =) ((i++)) ;;
    -*)
      _lockstock_value "$word"
      if [[ -n $value && $value != - && ${COMP_WORDS[i+1]} != = ]]; then ((i++)); fi
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
  _lockstock_value "$prev"
  case $value in
  FILE)
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    return
    ;;
  [a-z]*) found=${value//|/ } ;;
  '' | -)
    while IFS=$'\t' read -r under word _; do
      if [[ $cur == -* ]]; then
        if [[ $word == -* && ($under == - || $under == "$first" || $under == "$first/$second") ]]; then found+=" $word"; fi
      elif [[ $word != -* && -z $second && $under == "${first:--}" ]]; then
        found+=" $word"
      fi
    done <<<"$_lockstock_rows"
    ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$found" -- "$cur")
}

complete -F _lockstock lockstock
