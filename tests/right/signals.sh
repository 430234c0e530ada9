# needs: gcc
./signals
