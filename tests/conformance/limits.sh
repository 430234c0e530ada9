# needs: prlimit
# package: util-linux
# Limits that a program sets for what it starts, one after the other, and no free descriptor. What the others are is
# the machine's, of which a reference machine is another one: they only must not change.
functions='others() { ulimit -a | grep -v -e "-$1)" | md5sum; }'
eval "$functions"
for l in d e f i l m n q r s t u v x; do
    for v in 0 1 3 4 16 64 1000 100000 4000000; do
        case "$l $v" in
            # The kernel ends the shell itself at times that vary; with so little nothing starts.
            't 0' | 't 1' | 'v '? | 'v 16' | 'v 64' | 'v 1000' | 'd '? | 'd 16' | 'd 64' | 's '? | 's 16' | 'u '?  | 'u 16' | 'u 64' | 'u 1000') continue;;
        esac
        echo "ulimit -$l $v"
        before=$(others $l)
        (ulimit -$l $v 2>/dev/null || { echo refused; exit; }
            /bin/bash -c "$functions"'; ulimit -$0; [ "$(others $0)" = "$1" ] && echo unchanged; /bin/echo $((6 * 7)); exit 5' $l "$before" 2>&1
            echo "status $?")
    done
done 2>/dev/null
