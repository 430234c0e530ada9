#!/bin/sh
# Installs the C interface: headers, libtruecount.so, libtruecount.a, truecount.pc.
#   cargo build --release -p truecount-capi && crates/capi/install.sh --prefix /usr/local
# --from DIR: where libtruecount_c.so and .a were built (target/release). --destdir DIR: put before all paths.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=/usr/local from=$here/../../target/release destdir=
while [ $# -gt 0 ]; do
    case $1 in
    --prefix) prefix=$2 ;;
    --from) from=$2 ;;
    --destdir) destdir=$2 ;;
    *) echo "install.sh: unknown argument $1 (--prefix DIR, --from DIR, --destdir DIR)" >&2; exit 2 ;;
    esac
    shift 2
done
case $prefix in /*) ;; *) echo "install.sh: --prefix must be an absolute path: $prefix" >&2; exit 2 ;; esac
version=0.1.0
for file in libtruecount_c.so libtruecount_c.a; do
    if [ ! -e "$from/$file" ]; then
        echo "install.sh: $from/$file does not exist: cargo build --release -p truecount-capi" >&2
        exit 1
    fi
done
lib=$destdir$prefix/lib
mkdir -p "$lib/pkgconfig" "$destdir$prefix/include"
install -m 644 "$here/include/truecount.h" "$here/include/truecount.hpp" "$destdir$prefix/include/"
install -m 755 "$from/libtruecount_c.so" "$lib/libtruecount.so.$version"
ln -sf "libtruecount.so.$version" "$lib/libtruecount.so.0"
ln -sf libtruecount.so.0 "$lib/libtruecount.so"
install -m 644 "$from/libtruecount_c.a" "$lib/libtruecount.a"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/truecount.pc.in" >"$lib/pkgconfig/truecount.pc"
echo "installed in $destdir$prefix: include/truecount.h, include/truecount.hpp, lib/libtruecount.so, lib/libtruecount.a, lib/pkgconfig/truecount.pc"
