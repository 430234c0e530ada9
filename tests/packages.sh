#!/bin/bash
# The packages of `cargo xtask dist` installed in clean roots, tried as an ordinary user, and removed again: Debian 12 and 11
# (debootstrap), an RPM database in a Debian root, and a root with busybox and nothing else (no C library at all).
#   cargo xtask dist --arch x86_64 && tests/packages.sh [DIRECTORY]     # needs root, debootstrap, rpm, busybox-static; minutes
# MIRROR names another mirror of Debian. Exit status 0 if all is well, 1 if not, 2 if it cannot be tried here.
set -u
here=$(cd "$(dirname "$0")" && pwd)
packages=$(realpath -m "${1:-${CARGO_TARGET_DIR:-$here/../target}/packages}")
arch=$(uname -m)
[ "$(id -u)" = 0 ] || { echo "needs root (chroot, mounts)" >&2; exit 2; }
for tool in chroot unshare setpriv; do command -v $tool >/dev/null || { echo "no $tool" >&2; exit 2; }; done
only() { local found=("$packages"/$1); [ -e "${found[0]}" ] && echo "${found[0]}"; }
tarball=$(only "truecount-*-$arch-linux.tar.gz") || { echo "no packages in $packages: run \`cargo xtask dist\` first" >&2; exit 2; }
deb=$(only "truecount_*_$(dpkg --print-architecture 2>/dev/null || echo none).deb")
rpm=$(only "truecount-*.$arch.rpm")
work=$(mktemp -d) || exit 2
trap 'rm -rf --one-file-system "$work"' EXIT
tried=0 failed=0 skipped=0
fault() { echo "  FAILED: $*"; failed=$((failed + 1)); }

# Inside a root, with a /proc of its own that ends with the command.
inside() { local root=$1; shift; unshare --mount --pid --fork bash -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$@"' "$root" "$root" "$@"; }
as_user() { local root=$1; shift; unshare --mount --pid --fork bash -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && cd / && root=$0 && exec chroot --userspec=1234:1234 "$root" /bin/sh -c "cd /tmp && HOME=/tmp PATH=/usr/bin:/bin exec \"\$@\"" sh "$@"' "$root" "$@"; }
files() { (cd "$1" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp -o -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./var/log -o -path ./var/cache \) -prune -o -print | sort); }

# The main commands in a root, each with what its output must hold.
try() {
  local name=$1 root=$2 text
  tried=$((tried + 1))
  mkdir -p "$root/proc" "$root/dev" "$root/tmp"; chmod 1777 "$root/tmp"
  expect() { local want=$1; shift; text=$(as_user "$root" "$@" 2>&1); local status=$?
    { [ $status -le 1 ] && grep -q "$want" <<<"$text"; } || fault "$name: $* (status $status): $(head -3 <<<"$text")"; }
  expect '^truecount 0\.' truecount --version
  expect 'virtual PMU' truecount check
  expect 'instructions' truecount stat --source virtual -- /bin/true
  expect 'instructions' truecount run -- /bin/true
  expect 'instructions' truecount bench --runs 3 true 'sh -c :'
  expect 'dominant factor\|every run the same\|no factor\|±' truecount noise --runs 2 --factors env -- /bin/true
  echo "$name: tried"
}

# From nothing to a gated comparison: the package's installation and the commands of the first tutorial, as they stand there.
stranger() {
  local name=$1 root=$2 page=$here/../docs/tutorial/first-benchmark.md lines text
  lines="seq -f 'name %g' 1 2000 > names"$'\n'$(sed -n 's/^\$ //p' "$page")
  [ "$(wc -l <<<"$lines")" -lt 9 ] || fault "$name: the tutorial takes more than nine commands with the installation"
  text=$(as_user "$root" sh -c "mkdir -p tutorial && cd tutorial && $lines" 2>&1)
  [ "$(tail -n 1 <<<"$text")" = "exit status 3" ] || fault "$name: the tutorial: $(tail -n 3 <<<"$text")"
  echo "$name: the first tutorial, $(wc -l <<<"$lines") commands to a gated comparison"
}

debian() {
  local suite=$1 number=$2 root=$work/$1 before
  [ -n "$deb" ] && command -v debootstrap >/dev/null || { echo "skipped: Debian $number: no debootstrap, or no package"; skipped=$((skipped + 1)); return; }
  if ! debootstrap --variant=minbase "$suite" "$root" ${MIRROR:+"$MIRROR"} >"$work/log" 2>&1; then
    echo "skipped: Debian $number: debootstrap: $(tail -1 "$work/log")"; skipped=$((skipped + 1)); return
  fi
  before=$(files "$root")
  cp "$deb" "$root/tmp/truecount.deb"
  inside "$root" dpkg -i /tmp/truecount.deb >"$work/log" 2>&1 || fault "Debian $number: dpkg -i: $(tail -2 "$work/log")"
  try "Debian $number" "$root"
  stranger "Debian $number" "$root"
  inside "$root" dpkg --purge truecount >"$work/log" 2>&1 || fault "Debian $number: dpkg --purge: $(tail -2 "$work/log")"
  diff <(echo "$before") <(files "$root") >"$work/log" || fault "Debian $number: left behind: $(head -5 "$work/log")"
  if [ "$suite" = bookworm ]; then rpm_root "$root"; fi
}

rpm_root() {
  local root=$1 before
  [ -n "$rpm" ] && command -v rpm >/dev/null || { echo "skipped: RPM: no rpm, or no package"; skipped=$((skipped + 1)); return; }
  before=$(files "$root")
  rpm --root "$root" --dbpath /var/lib/rpm --initdb
  cp "$rpm" "$root/tmp/truecount.rpm"
  rpm --root "$root" --dbpath /var/lib/rpm -i --nosignature "$root/tmp/truecount.rpm" >"$work/log" 2>&1 || fault "RPM: rpm -i: $(tail -2 "$work/log")"
  try "RPM" "$root"
  rpm --root "$root" --dbpath /var/lib/rpm -e truecount >"$work/log" 2>&1 || fault "RPM: rpm -e: $(tail -2 "$work/log")"
  diff <(echo "$before") <(files "$root" | grep -v '^./var/lib/rpm') >"$work/log" || fault "RPM: left behind: $(head -5 "$work/log")"
}

bare() {
  local root=$work/bare box name
  box=$(command -v busybox) && ! ldd "$box" >/dev/null 2>&1 || { echo "skipped: bare root: no static busybox"; skipped=$((skipped + 1)); return; }
  mkdir -p "$root/bin" "$root/usr/bin" "$root/tmp"
  cp "$box" "$root/bin/busybox"
  for name in sh true cat; do ln -s busybox "$root/bin/$name"; done
  tar xzf "$tarball" -C "$root/tmp" && mv "$root"/tmp/truecount-*/bin/truecount "$root/usr/bin/"
  rm -rf "$root"/tmp/truecount-*
  try "bare root" "$root"
}

(cd "$packages" && sha256sum --quiet -c SHA256SUMS) || fault "SHA256SUMS"
bare
debian bookworm 12
debian bullseye 11
echo "$((failed < tried ? tried - failed : 0)) passed, $failed failed, $skipped skipped"
[ "$tried" -gt 0 ] || exit 2
[ "$failed" = 0 ]
