_orchestra_completion() {
    local IFS=$'\n' rest=$COMP_LINE words=() word cut i response type value

    # bash splits words at @ : and =, too (COMP_WORDBREAKS), as in @12 and scripted:FILE. They are put together again.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i)) && [[ -n $rest && $rest != [[:space:]]* ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        rest=${rest#*"$word"}
    done
    word=${words[${#words[@]} - 1]}

    cut=${word%"$2"}  # bash replaces only $2, the end of the word: what is before it must not come again

    response=$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) _ORCHESTRA_COMPLETE=bash_complete $1)
    for word in $response; do
        IFS=',' read -r type value <<< "$word"
        if [[ $type == 'dir' ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            COMPREPLY+=("${value#"$cut"}")
        fi
    done
    return 0
}

complete -o nosort -F _orchestra_completion orchestra
