#!/bin/sh
# Installs the C interface: headers, libtruecount.so, libtruecount.a, truecount.pc.
#   cargo build --release -p truecount-capi && crates/capi/install.sh --prefix /usr/local
# --from DIR: where libtruecount_c.so and .a were built (target/release). --destdir DIR: put before all paths.
# The shared library is linked here, by cc ($CC), from the static one: with symbol versions (truecount.map), which cargo
# cannot give. --unversioned takes cargo's, which needs no compiler; programs linked with one run with the other (the loader
# notes that versions are missing).
# --static: libtruecount.a alone, for targets that have no shared libraries (musl):
#   cargo build --release -p truecount-capi --target x86_64-unknown-linux-musl
#   crates/capi/install.sh --static --prefix /usr/local/musl --from target/x86_64-unknown-linux-musl/release
#   musl-gcc -static prog.c $(pkg-config --static --cflags --libs truecount)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=/usr/local from=$here/../../target/release destdir= versioned=yes shared=yes
while [ $# -gt 0 ]; do
    case $1 in
    --unversioned) versioned=no; shift; continue ;;
    --static) versioned=no shared=no; shift; continue ;;
    --prefix) prefix=$2 ;;
    --from) from=$2 ;;
    --destdir) destdir=$2 ;;
    *) echo "install.sh: unknown argument $1 (--prefix DIR, --from DIR, --destdir DIR, --unversioned, --static)" >&2; exit 2 ;;
    esac
    shift 2
done
case $prefix in /*) ;; *) echo "install.sh: --prefix must be an absolute path: $prefix" >&2; exit 2 ;; esac
version=0.1.0
for file in libtruecount_c.so libtruecount_c.a; do
    [ $shared = yes ] || [ $file = libtruecount_c.a ] || continue
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
elif [ $shared = yes ]; then
    install -m 755 "$from/libtruecount_c.so" "$lib/libtruecount.so.$version"
fi
library=
if [ $shared = yes ]; then
    ln -sf "libtruecount.so.$version" "$lib/libtruecount.so.0"
    ln -sf libtruecount.so.0 "$lib/libtruecount.so"
    library='lib/libtruecount.so, '
fi
install -m 644 "$from/libtruecount_c.a" "$lib/libtruecount.a"
needs='s|^||'
if [ $shared = no ]; then
    # Stacks are unwound by what Rust has for its target: the compiler's own library is made for another C library.
    target=$(basename "$(dirname "$from")")
    unwind=$(rustc --print sysroot 2>/dev/null || true)/lib/rustlib/$target/lib/self-contained/libunwind.a
    if [ -e "$unwind" ]; then
        install -m 644 "$unwind" "$lib/libtruecount_unwind.a"
        needs='s|^Libs.private:.*|Libs.private: -ltruecount_unwind|'
    fi
fi
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" -e "$needs" "$here/truecount.pc.in" >"$lib/pkgconfig/truecount.pc"
echo "installed in $destdir$prefix: include/truecount.h, include/truecount.hpp, ${library}lib/libtruecount.a, lib/pkgconfig/truecount.pc"
