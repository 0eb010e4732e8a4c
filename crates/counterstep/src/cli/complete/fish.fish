# Completion of PROGRAM for fish. The program itself knows what may come next.
function __FUNCTION_complete
    set -l words (commandline --tokenize --current-process --cut-at-cursor)
    set -l current (commandline --current-token --cut-at-cursor)
    set -l found ($words[1] complete fish -- $words[2..-1] "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete --command PROGRAM --no-files --arguments '(__FUNCTION_complete)'
