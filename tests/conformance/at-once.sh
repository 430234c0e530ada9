# needs: xargs
# time: 600
# when: all
# A thousand programs at the same time.
seq 1000 | xargs -P 1000 -I{} sh -c 'echo {}; exec /bin/sleep 3' | sort -n | md5sum
