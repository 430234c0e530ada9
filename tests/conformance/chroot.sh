# needs: busybox unshare chroot
# package: busybox-static util-linux
# ignore: .
# A root without /proc and /dev, and namespaces of its own.
mkdir -p r/bin; cp "$(command -v busybox)" r/bin/busybox
if [ "$(id -u)" = 0 ]; then
    chroot r /bin/busybox sh -c 'echo in; /bin/busybox ls /; /bin/busybox seq 3 | /bin/busybox wc -l; exit 4'; echo "status $?"
fi
unshare -U -r sh -c 'id -u; echo $((6 * 7)); exit 6' 2>&1; echo "status $?"
