# needs: gcc
# package: gcc clang
# time: 300
# when: all
# ignore: .
export TSAN_OPTIONS="exitcode=66 halt_on_error=0" UBSAN_OPTIONS=print_stacktrace=0 ASAN_OPTIONS=detect_leaks=0
for p in race-*-* bad-*-*; do
    case $p in *.c) continue;; esac
    ./"$p" > out 2> err; echo "$p $?"; sort out; grep -oE 'WARNING: ThreadSanitizer: [a-z ]*|ERROR: AddressSanitizer: [a-z-]*|runtime error: [a-z ]*' err | sort -u
done
./bad-gcc-address x > out 2> err; echo $?; grep -oE 'ERROR: AddressSanitizer: [a-z-]*' err
