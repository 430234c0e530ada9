#!/bin/bash
# The packages of `cargo xtask dist` installed in clean roots, tried as an ordinary user, and removed again: Debian 12 and 11
# (debootstrap), an RPM database in a Debian root, a root with busybox and nothing else (no C library at all), the image's
# own root, a prefix of npm's, and a venv.
#   cargo xtask dist --arch x86_64 && tests/packages.sh [DIRECTORY]
# Needs root, debootstrap, rpm, busybox-static, npm, python3 with venv: what is missing is said. Takes minutes.
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
npm=$(only "truecount-npm-$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')-*.tgz")
image=$(only "truecount-*-oci.tar")
wheel=$(only "truecount-*_$arch.whl")
work=$(mktemp -d) || exit 2
chmod 755 "$work"
trap 'rm -rf --one-file-system "$work"' EXIT
tried=0 failed=0 skipped=0
fault() { echo "  FAILED: $*"; failed=$((failed + 1)); }
skip() { echo "skipped: $*"; skipped=$((skipped + 1)); }

# Inside a root, with a /proc of its own that ends with the command.
inside() { local root=$1; shift; unshare --mount --pid --fork bash -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$@"' "$root" "$root" "$@"; }
as_user() { local root=$1; shift
  if [ -e "$root/pyvenv.cfg" ]; then (cd "$root/tmp" && HOME=$root/tmp PATH=$root/bin:/usr/bin:/bin exec setpriv --reuid 1234 --regid 1234 --clear-groups "$@"); return; fi
  unshare --mount --pid --fork bash -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && cd / && root=$0 && exec chroot --userspec=1234:1234 "$root" /bin/sh -c "cd /tmp && HOME=/tmp PATH=/usr/bin:/bin exec \"\$@\"" sh "$@"' "$root" "$@"; }
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
  [ -n "$deb" ] && command -v debootstrap >/dev/null || { skip "Debian $number: no debootstrap, or no package"; return; }
  if ! debootstrap --variant=minbase "$suite" "$root" ${MIRROR:+"$MIRROR"} >"$work/log" 2>&1; then
    skip "Debian $number: debootstrap: $(tail -1 "$work/log")"; return
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
  [ -n "$rpm" ] && command -v rpm >/dev/null || { skip "RPM: no rpm, or no package"; return; }
  before=$(files "$root")
  rpm --root "$root" --dbpath /var/lib/rpm --initdb
  cp "$rpm" "$root/tmp/truecount.rpm"
  rpm --root "$root" --dbpath /var/lib/rpm -i --nosignature "$root/tmp/truecount.rpm" >"$work/log" 2>&1 || fault "RPM: rpm -i: $(tail -2 "$work/log")"
  try "RPM" "$root"
  rpm --root "$root" --dbpath /var/lib/rpm -e truecount >"$work/log" 2>&1 || fault "RPM: rpm -e: $(tail -2 "$work/log")"
  diff <(echo "$before") <(files "$root" | grep -v '^./var/lib/rpm') >"$work/log" || fault "RPM: left behind: $(head -5 "$work/log")"
}

# A root with a shell and nothing else.
empty_root() {
  local root=$1 box name
  box=$(command -v busybox) && ! ldd "$box" >/dev/null 2>&1 || { skip "${root##*/} root: no static busybox"; return 1; }
  mkdir -p "$root/bin" "$root/usr/bin" "$root/tmp" "$root/proc" "$root/dev"
  cp "$box" "$root/bin/busybox"
  for name in sh true cat; do ln -s busybox "$root/bin/$name"; done
}

bare() {
  local root=$work/bare
  empty_root "$root" || return
  tar xzf "$tarball" -C "$root/tmp" && mv "$root"/tmp/truecount-*/bin/truecount "$root/usr/bin/"
  rm -rf "$root"/tmp/truecount-*
  try "bare root" "$root"
}

npm() {
  local root=$work/npm before
  [ -n "$npm" ] && type -P npm >/dev/null || { skip "npm: no npm, or no package"; return; }
  empty_root "$root" || return
  local npm_=(command npm --global --offline --no-audit --no-fund --no-update-notifier --prefix "$root/usr")
  mkdir -p "$root/usr/lib/node_modules"
  before=$(files "$root")
  "${npm_[@]}" install "$npm" >"$work/log" 2>&1 || fault "npm install: $(tail -2 "$work/log")"
  try "npm" "$root"
  "${npm_[@]}" uninstall "$(ls "$root/usr/lib/node_modules")" >"$work/log" 2>&1 || fault "npm uninstall: $(tail -2 "$work/log")"
  diff <(echo "$before") <(files "$root") >"$work/log" || fault "npm: left behind: $(head -5 "$work/log")"
}

# The image for this architecture, unpacked as a container's root by what its index says, every sum checked.
image() {
  local root=$work/image
  [ -n "$image" ] && command -v python3 >/dev/null || { skip "image: no python3, or no image"; return; }
  empty_root "$root" || return
  mkdir "$work/oci" && tar xf "$image" -C "$work/oci"
  python3 - "$work/oci" "$root" "$arch" >"$work/entry" 2>"$work/log" <<'P' || { fault "image: $(tail -1 "$work/log")"; return; }
import hashlib, io, json, sys, tarfile, gzip
oci, root, arch = sys.argv[1:]
def blob(of):
    content = open(f"{oci}/blobs/{of['digest'].replace(':', '/')}", "rb").read()
    assert len(content) == of["size"], f"{of}: size"
    assert "sha256:" + hashlib.sha256(content).hexdigest() == of["digest"], f"{of}: sum"
    return content
assert json.load(open(f"{oci}/oci-layout"))["imageLayoutVersion"] == "1.0.0"
name = {"x86_64": "amd64", "aarch64": "arm64"}[arch]
[manifest] = [m for m in json.load(open(f"{oci}/index.json"))["manifests"] if m["platform"]["architecture"] == name]
manifest = json.loads(blob(manifest))
config = json.loads(blob(manifest["config"]))
assert config["architecture"] == name
for layer, plain in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
    data = gzip.decompress(blob(layer))
    assert "sha256:" + hashlib.sha256(data).hexdigest() == plain, "diff_id"
    tarfile.open(fileobj=io.BytesIO(data)).extractall(root)
print(*config["config"]["Entrypoint"])
P
  try "image" "$root"
  as_user "$root" $(cat "$work/entry") --version | grep -q '^truecount 0' || fault "image: its entry point $(cat "$work/entry")"
}

wheel() {
  local root=$work/venv before python=/usr/bin/python3 # one that other users may start
  [ -x $python ] || python=python3
  [ -n "$wheel" ] && $python -m venv "$root" >"$work/log" 2>&1 || { skip "wheel: no venv, or no wheel"; return; }
  local pip=("$root/bin/pip" --disable-pip-version-check --no-cache-dir) owns='site-packages/pip/.*__pycache__\|/__pycache__$'
  mkdir -p "$root/tmp"
  before=$(files "$root" | grep -v "$owns")
  "${pip[@]}" install --no-index "$wheel" >"$work/log" 2>&1 || fault "pip install: $(tail -2 "$work/log")"
  try "wheel" "$root"
  as_user "$root" truecount run -- python3 -c 'import truecount
counter = truecount.counter(); start = counter.read(); truecount.known_loop(1000); print(counter.between(start, counter.read()) >= 2000)' >"$work/log" 2>&1
  grep -q True "$work/log" || fault "wheel: the module: $(tail -3 "$work/log")"
  "${pip[@]}" uninstall -y truecount >"$work/log" 2>&1 || fault "pip uninstall: $(tail -2 "$work/log")"
  diff <(echo "$before") <(files "$root" | grep -v "$owns") >"$work/log" || fault "wheel: left behind: $(head -5 "$work/log")"
}

(cd "$packages" && sha256sum --quiet -c SHA256SUMS) || fault "SHA256SUMS"
bare
npm
image
wheel
debian bookworm 12
debian bullseye 11
echo "$((failed < tried ? tried - failed : 0)) passed, $failed failed, $skipped skipped"
[ "$tried" -gt 0 ] || exit 2
[ "$failed" = 0 ]
