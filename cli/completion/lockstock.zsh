#compdef lockstock
# Completion of lockstock for zsh, made by `lockstock completion zsh`.

_lockstock() {
  local -a found
  local i=${words[(ie)--]}
  found=(${(f)"$(lockstock completion -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if [[ $words[CURRENT] == --*=* ]]; then compset -P '*='; fi
  if ((i < CURRENT)); then # a program follows
    words=("${(@)words[i+1,-1]}")
    ((CURRENT -= i))
    _normal
  elif [[ $found[1] == @file ]]; then
    _files
  else
    found=(${${found/$'\t'/:}%:})
    _describe word found
  fi
}

# compinit loads this file as a function; a shell may also source it.
if [[ $funcstack[1] == _lockstock ]]; then _lockstock "$@"; else compdef _lockstock lockstock; fi
