# needs: make gcc
set -e
make -s -j2; ./prog; make -q && echo "up to date"
