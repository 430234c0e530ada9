# needs: gcc
# ignore: .
./io_uring; echo "status $?"
