# needs: gcc
# when: ci
./spawn
