#compdef PROGRAM
# Completion of PROGRAM for zsh. The program itself knows what may come next.
_FUNCTION() {
    local -a found
    found=("${(@f)$("${words[1]}" complete zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then
        _describe PROGRAM found
    else
        _files
    fi
}
# Read from a folder of functions, it is the function; by `source`, it makes one.
if [[ "${funcstack[1]}" = "_FUNCTION" ]]; then
    _FUNCTION "$@"
else
    compdef _FUNCTION PROGRAM
fi
