# needs: gcc
./spawn
