# needs: gcc
# when: ci
./patch
