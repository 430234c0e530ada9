#!/bin/sh
# Installs the C interface: headers, libtruecount.so, libtruecount.a, truecount.pc.
#   cargo build --release -p truecount-capi && crates/capi/install.sh --prefix /usr/local
# --from DIR: where libtruecount_c.so and .a were built (target/release). --destdir DIR: put before all paths.
# The shared library is linked here, by cc ($CC), from the static one: with symbol versions (truecount.map), which cargo
# cannot give. --unversioned takes cargo's, which needs no compiler; programs linked with one run with the other (the loader
# notes that versions are missing).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=/usr/local from=$here/../../target/release destdir= versioned=yes
while [ $# -gt 0 ]; do
    case $1 in
    --unversioned) versioned=no; shift; continue ;;
    --prefix) prefix=$2 ;;
    --from) from=$2 ;;
    --destdir) destdir=$2 ;;
    *) echo "install.sh: unknown argument $1 (--prefix DIR, --from DIR, --destdir DIR, --unversioned)" >&2; exit 2 ;;
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
if [ $versioned = yes ] && ! command -v "${CC:-cc}" >/dev/null; then
    echo "install.sh: no ${CC:-cc}: the shared library has no symbol versions (--unversioned says that this is meant)" >&2
    versioned=no
fi
if [ $versioned = yes ]; then
    "${CC:-cc}" -shared -o "$lib/libtruecount.so.$version" -Wl,-soname,libtruecount.so.0 \
        -Wl,--version-script="$here/truecount.map" -Wl,--gc-sections -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack \
        -Wl,--whole-archive "$from/libtruecount_c.a" -Wl,--no-whole-archive -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
    chmod 755 "$lib/libtruecount.so.$version"
else
    install -m 755 "$from/libtruecount_c.so" "$lib/libtruecount.so.$version"
fi
ln -sf "libtruecount.so.$version" "$lib/libtruecount.so.0"
ln -sf libtruecount.so.0 "$lib/libtruecount.so"
install -m 644 "$from/libtruecount_c.a" "$lib/libtruecount.a"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/truecount.pc.in" >"$lib/pkgconfig/truecount.pc"
echo "installed in $destdir$prefix: include/truecount.h, include/truecount.hpp, lib/libtruecount.so, lib/libtruecount.a, lib/pkgconfig/truecount.pc"
