# Completion of lockstock for bash, made by `lockstock completion bash`.

_lockstock() {
  local cur=${COMP_WORDS[COMP_CWORD]} found
  mapfile -t found < <(lockstock completion -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [[ $cur == = ]]; then cur=; fi # bash splits --flag=value into the flag, = and the value
  case ${found[0]-} in
  @program) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
  @file)
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    ;;
  *) mapfile -t COMPREPLY < <(compgen -W "${found[*]%%$'\t'*}" -- "$cur") ;;
  esac
}

complete -F _lockstock lockstock
