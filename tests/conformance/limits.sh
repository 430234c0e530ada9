# needs: prlimit
# package: util-linux
# Limits that a program sets for what it starts, one after the other, and no free descriptor.
for l in d e f i l m n q r s t u v x; do
    for v in 0 1 3 4 16 64 1000 100000 4000000; do
        case "$l $v" in
            # The kernel ends the shell itself at times that vary; with so little nothing starts.
            't 0' | 't 1' | 'v '? | 'v 16' | 'v 64' | 'v 1000' | 'd '? | 'd 16' | 'd 64' | 's '? | 's 16' | 'u '?  | 'u 16' | 'u 64' | 'u 1000') continue;;
        esac
        echo "ulimit -$l $v"
        (ulimit -$l $v 2>/dev/null || { echo refused; exit; }; /bin/sh -c 'ulimit -a | md5sum; /bin/echo $((6 * 7)); exit 5' 2>&1; echo "status $?")
    done
done 2>/dev/null
