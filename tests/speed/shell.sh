# needs: sh
# mean: no
# bound: 3
i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done
