# needs: gcc
./vectors
