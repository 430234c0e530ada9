# needs: gcc
# when: ci
./smc
