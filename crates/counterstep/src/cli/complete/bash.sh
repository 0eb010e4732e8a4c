# Completion of PROGRAM for bash. The program itself knows what may come next.
_FUNCTION() {
    local IFS=$'\n'
    # shellcheck disable=SC2207 # a line for each, and read in bash 3 too
    COMPREPLY=($("${COMP_WORDS[0]}" complete bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o bashdefault -o default -F _FUNCTION PROGRAM
