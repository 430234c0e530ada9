# needs: gcc
# time: 3000
# when: all
# 200,000 threads and 200,000 processes of one run.
./many 200000 200000; echo "status $?"
