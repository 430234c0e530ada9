# needs: gcc
# when: ci
./signals
