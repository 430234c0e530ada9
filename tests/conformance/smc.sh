# needs: gcc
./smc
