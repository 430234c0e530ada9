# needs: gcc
./patch
