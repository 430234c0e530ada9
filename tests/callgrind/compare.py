#!/usr/bin/env python3
"""Runs programs under Callgrind and under truecount valgrind --machine=valgrind, and compares the two files function by
function: own instructions, and how often each was called. Prints a Markdown table, and below it what differs. Functions are
told apart by addresses, since the two name aliases differently.

  tests/callgrind/compare.py [-v] TRUECOUNT [NAME...]        (default: all of the list below)

Needs valgrind, and for some rows cc, c++, rustc, lua, sqlite3 ...; what is missing is said and left out. The loader and what
it calls are left out: it finds another environment and another auxiliary vector, and Valgrind's library; so are `.init` and
`.fini`, which Callgrind has in no file. Repeated string instructions, which count
once here and once an iteration there, are left out of a function's sum where their counts differ, and said.
"""
import collections
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

CXX = r"""
#include <algorithm>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
static int parse(const std::string &s) { if (s.size() % 7 == 0) throw std::runtime_error(s); return (int)s.size(); }
int main() {
    std::map<std::string, int> counts;
    std::vector<std::string> words;
    for (int i = 0; i < 3000; i++) words.push_back("w" + std::to_string(i * 7919 % 10007));
    std::sort(words.begin(), words.end());
    int thrown = 0;
    for (auto &w : words) { try { counts[w.substr(0, 3)] += parse(w + w); } catch (std::exception &) { thrown++; } }
    long sum = 0;
    for (auto &c : counts) sum += c.second;
    printf("%ld %d\n", sum, thrown);
}
"""
RUST = r"""
use std::collections::BTreeMap;
fn fib(n: u32) -> u64 { if n < 2 { n as u64 } else { fib(n - 1) + fib(n - 2) } }
fn main() {
    let mut words = BTreeMap::new();
    for i in 0..3000u32 { *words.entry(format!("w{}", i * 7919 % 1009)).or_insert(0u64) += fib(i % 12); }
    let mut all: Vec<_> = words.into_iter().collect();
    all.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    println!("{:?}", &all[..3]);
}
"""
C = r"""
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static jmp_buf env;
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) static int ack(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ack(m - 1, 1) : ack(m - 1, ack(m, n - 1)); }
__attribute__((noinline)) static void dive(int n) { if (n == 0) longjmp(env, 1); dive(n - 1); }
int main(void) {
    static int numbers[5000];
    for (int i = 0; i < 5000; i++) numbers[i] = (int)((i * 2654435761u) >> 8);
    qsort(numbers, 5000, sizeof *numbers, compare);
    for (volatile int i = 0; i < 20; i++) if (!setjmp(env)) dive(i);
    printf("%d %d\n", numbers[0], ack(2, 20));
}
"""
LUA = """local t = {} for i = 1, 3000 do t[i] = (i * 7919) % 10007 end table.sort(t)
local function f(n) if n < 2 then return n end return f(n - 1) + f(n - 2) end
local s = {} for i = 1, 300 do s[#s + 1] = string.format('%05d', t[i]) end print(f(15), #table.concat(s))"""
SQL = """create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 800)
insert into t select i, 'row ' || (i * 7919 % 1009), i / 7.0 from n;
create index x on t(b); select count(*), sum(c), max(b) from t where b like 'row 1%'; select b, count(*) from t group by b limit 5;"""

# Name, what must be there, command (in a directory with the file `text`), input.
PROGRAMS = [
    ("gzip", "gzip", ["gzip", "-c", "text"], None),
    ("gunzip", "gzip", ["gzip", "-dc", "text.gz"], None),
    ("bzip2", "bzip2", ["bzip2", "-c", "text"], None),
    ("xz", "xz", ["xz", "-1", "-T1", "-c", "text"], None),
    ("sqlite3", "sqlite3", ["sqlite3", ":memory:"], SQL),
    ("lua", "lua", ["lua", "-e", LUA], None),
    ("c", "cc", ["./c"], None),
    ("c-static", "cc", ["./c-static"], None),
    ("c++", "c++", ["./cxx"], None),
    ("rust", "rustc", ["./rust"], None),
    ("sort", "sort", ["sort", "text"], None),
    ("sed", "sed", ["sed", "-E", "s/([a-z]+) ([a-z]+)/\\2 \\1/g", "text"], None),
    ("grep", "grep", ["grep", "-cE", "(fox|dog).*(7|9)$", "text"], None),
    ("awk", "awk", ["awk", "{n[$2] += $NF} END {for (w in n) print w, n[w]}", "text"], None),
    ("perl", "perl", ["perl", "-e", 'my %h; $h{$_ % 97} .= "x" x ($_ % 5) for 1..3000; print join(",", map {length} sort values %h)'], None),
    ("dc", "dc", ["dc", "-e", "2 400 ^ 3 300 ^ * p"], None),
]


class Profile:
    """A file of Callgrind's format with addresses: Ir by instruction, calls by site and target."""

    def __init__(self, path):
        self.ir, self.calls, self.names = collections.Counter(), collections.Counter(), {}
        ob, cob, fn, pending = "", "", "", None
        for line in open(path, errors="replace"):
            key, _, value = line.rstrip("\n").partition("=")
            if key == "ob":
                ob = value
            elif key == "cob":
                cob = value
            elif key == "fn":
                # Recursion is another function there.
                fn = re.sub(r"'\d+$", "", value)
            elif key == "calls":
                count, target = value.split()[:2]
                pending = int(count), (cob or ob, int(target, 16))
                cob = ""
            elif line.startswith("0x"):
                address, cost = line.split()[:2]
                place = ob, int(address, 16)
                if pending is not None:
                    self.calls[place, pending[1]] += pending[0]
                    pending = None
                else:
                    self.ir[place] += int(cost)
                    self.names[place] = fn
        self.total = sum(self.ir.values())


def aligned(theirs, ours):
    """Brings Callgrind's addresses to those of truecount, where the two differ: it takes a file's text for shifted."""
    for path in {place[0] for place in ours.ir}:
        votes = collections.Counter()
        rare = [collections.defaultdict(list), collections.defaultdict(list)]
        for number, profile in enumerate((theirs, ours)):
            for place, count in profile.ir.items():
                if place[0] == path:
                    rare[number][count].append(place[1])
        for count, places in rare[0].items():
            others = rare[1].get(count, [])
            if len(places) <= 8 and len(others) <= 8:
                votes.update(b - a for a in places for b in others if (b - a) % 4096 == 0)
        if not votes:
            continue
        slide = votes.most_common(1)[0][0]
        if slide:
            moved = lambda place: (path, place[1] + slide) if place[0] == path else place
            theirs.ir = collections.Counter({moved(place): count for place, count in theirs.ir.items()})
            theirs.names = {moved(place): name for place, name in theirs.names.items()}
            theirs.calls = collections.Counter({(moved(a), moved(b)): count for (a, b), count in theirs.calls.items()})


class Code:
    """The bytes of files at the addresses that they say."""

    def __init__(self):
        self.files = {}

    def file(self, path):
        if path not in self.files:
            try:
                data = open(path, "rb").read()
            except OSError:
                data = b""
            text = []
            if data[:5] == b"\x7fELF\x02":
                start, (size, count, names) = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<HHH", data, 58)
                strings = struct.unpack_from("<Q", data, start + size * names + 24)[0]
                for at in range(start, start + size * count, size):
                    name, kind, flags, address, offset, length = struct.unpack_from("<IIQQQQ", data, at)
                    name = data[strings + name:data.index(b"\0", strings + name)]
                    # In no file there; and the entries of tables are their callers' in both.
                    if flags & 4 and not name.startswith((b".plt", b".iplt", b".init", b".fini")):
                        text.append((address, length, offset))
            self.files[path] = data, text
        return self.files[path]

    def is_text(self, place):
        if os.path.basename(place[0]).startswith(("ld-linux", "vgpreload")):
            return False
        return any(start <= place[1] < start + length for start, length, _ in self.file(place[0])[1])

    def at(self, place):
        data, text = self.file(place[0])
        for start, length, offset in text:
            if start <= place[1] < start + length:
                return data[place[1] - start + offset:][:15]
        return b""

    def is_string(self, place):
        code = self.at(place)
        prefixes = re.match(rb"[\x66\xf2\xf3\x40-\x4f]*", code)[0]
        return bool(set(prefixes) & {0xF2, 0xF3}) and code[len(prefixes):][:1] in (b"\xa4", b"\xa5", b"\xa6", b"\xa7", b"\xaa", b"\xab", b"\xac", b"\xad", b"\xae", b"\xaf")


def compared(theirs, ours, code):
    """Own Ir by function (as Callgrind names them) and calls by callee, that are equal, and causes or names of the others."""
    name = lambda place: (place[0], theirs.names.get(place) or ours.names.get(place))
    functions, said = collections.defaultdict(lambda: [0, 0, 0]), []
    instructions = [0, 0]
    for place in set(theirs.ir) | set(ours.ir):
        if not code.is_text(place):
            continue
        sums, pair = functions[name(place)], (theirs.ir[place], ours.ir[place])
        instructions[0] += pair[0] == pair[1]
        instructions[1] += 1
        if pair[0] != pair[1] and code.is_string(place):
            sums[2] += 1
            continue
        sums[0] += pair[0]
        sums[1] += pair[1]
    wrong = {f: s for f, s in functions.items() if s[0] != s[1]}
    for (path, function), (a, b, _) in sorted(wrong.items(), key=lambda item: -abs(item[1][0] - item[1][1])):
        said.append(f"own Ir of {function} ({os.path.basename(path)}): Callgrind {a:,}, truecount {b:,}")
    strings = sum(1 for s in functions.values() if s[2])
    callees = collections.defaultdict(lambda: [0, 0])
    for number, profile in enumerate((theirs, ours)):
        for (site, target), count in profile.calls.items():
            if code.is_text(target) and not os.path.basename(site[0]).startswith("ld-linux"):
                callees[target][number] += count
    wrong_calls = {t: c for t, c in callees.items() if c[0] != c[1]}
    for target, (a, b) in sorted(wrong_calls.items(), key=lambda item: -abs(item[1][0] - item[1][1])):
        said.append(f"calls of {name(target)[1]} ({os.path.basename(target[0])} {target[1]:#x}): Callgrind {a:,}, truecount {b:,}")
    return instructions, (len(functions) - len(wrong), len(functions), strings), (len(callees) - len(wrong_calls), len(callees)), said


# Where data lie decides what misses and what is predicted: Callgrind itself has 29,500 to 40,900 mispredictions in the C++
# program by the size of the environment alone, and sed, awk and perl copy the environment to the heap, in front of all else
# there. So both programs get the environment that Valgrind's have, with the same names and bytes, and the stack begins at
# the same place of a page (this tells where that is): the program's path has as many more `./` under truecount.
STACK = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void tell(int count, char **words) {
    const char *told = getenv("STACK"), *name = strrchr(words[0], '/');
    /* The tools are programs, too. */
    if (!told || *told != '1' || strcmp(told + 1, name ? name + 1 : words[0])) return;
    FILE *file = fopen("stack", "w");
    if (file) fprintf(file, "%lu", (unsigned long)words & 4095), fclose(file);
    _exit(0);
}
"""


def environment(directory, program, probe):
    """What a program's environment is under Valgrind."""
    given = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PERL_HASH_SEED": "0"}
    if os.path.exists(os.path.join(directory, "stack.so")):
        given |= {"LD_PRELOAD": "./stack.so", "STACK": ("1" if probe else "0") + os.path.basename(program)}
    command = ["valgrind", "--tool=none", "-q", "--", shutil.which("env"), "-0"]
    told = subprocess.run(command, cwd=directory, env=given, check=True, stdout=subprocess.PIPE, timeout=600).stdout.decode()
    return given, dict(line.split("=", 1) for line in told.split("\0") if line)


def run(command, directory, data, probe=False):
    """CPU seconds of a command: a tool's options, `--`, the program's."""
    program = command[command.index("--") + 1]
    given, seen = environment(directory, program, probe)
    before, out = os.times(), open(os.path.join(directory, "output"), "wb")
    done = subprocess.run(command, cwd=directory, input=data.encode() if data else None, stdin=None if data else subprocess.DEVNULL,
                          stdout=out, stderr=subprocess.PIPE, env=given if command[0] == "valgrind" else seen, timeout=600)
    after = os.times()
    if done.returncode not in (0, 1):
        sys.exit(f"{command[:4]} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
    return after.children_user + after.children_system - before.children_user - before.children_system


def stack(command, directory, data):
    """Where the stack begins in its page."""
    path = os.path.join(directory, "stack")
    if os.path.exists(path):
        os.remove(path)
    run(command, directory, data, True)
    with open(path) as file:
        return int(file.read())


def placed(theirs, ours, directory, data):
    """The second command with a path of the program by which its stack begins at the same place of a page; as it is, where
    that is not known: a static program, no compiler."""
    at = ours.index("--") + 1
    where, name = os.path.split(ours[at])
    try:
        wanted, more = stack(theirs, directory, data), 0
        for _ in range(8):
            moved = [*ours[:at], where + "/" + "./" * more + name, *ours[at + 1:]]
            now = stack(moved, directory, data)
            if now == wanted:
                return moved
            # The path is on the stack twice, as argument and as AT_EXECFN.
            more = (more + (now - wanted) % 4096 // 4) % 1024
    except (OSError, ValueError):
        pass
    return ours


def made(directory):
    with open(os.path.join(directory, "stack.c"), "w") as file:
        file.write(STACK)
    if shutil.which("cc"):
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "stack.c", "-o", "stack.so"], cwd=directory, check=True)
    with open(os.path.join(directory, "text"), "w") as text:
        for i in range(1500):
            text.write(f"{i} the quick brown fox {i * 7919 % 10007} jumps over the lazy dog {i * i % 97}\n")
    subprocess.run(["gzip", "-kn", "text"], cwd=directory, check=True)
    for name, source, command in [("c.c", C, ["cc", "-g", "-O1", "c.c", "-o", "c"]), ("c.c", C, ["cc", "-g", "-O1", "-static", "c.c", "-o", "c-static"]),
                                  ("cxx.cc", CXX, ["c++", "-g", "-O1", "cxx.cc", "-o", "cxx"]), ("rust.rs", RUST, ["rustc", "-g", "-O", "rust.rs"])]:
        with open(os.path.join(directory, name), "w") as file:
            file.write(source)
        if shutil.which(command[0]):
            subprocess.run(command, cwd=directory, check=True)


def both(truecount, chosen, options, columns, read):
    """Of each program: its name, what `read` makes of Callgrind's file and of truecount's, and the CPU seconds of both. What is
    not here gets a row of so many columns."""
    if not shutil.which("valgrind"):
        sys.exit("skipped: no valgrind")
    options = ["--tool=callgrind", *options, "--compress-pos=no", "--compress-strings=no", "-q"]
    with tempfile.TemporaryDirectory() as directory:
        made(directory)
        for name, needs, command, data in PROGRAMS:
            if chosen and name not in chosen:
                continue
            if not shutil.which(needs):
                print(f"| {name} | skipped: no {needs}" + " |" * (columns - 1))
                continue
            # By its path: both find it in the same place, with the same name.
            command = [command[0] if "/" in command[0] else shutil.which(command[0]), *command[1:]]
            theirs = ["valgrind", *options, "--callgrind-out-file=theirs", "--", *command]
            ours = [truecount, "valgrind", "--machine=valgrind", *options, "--callgrind-out-file=ours", "--", *command]
            ours = placed(theirs, ours, directory, data)
            there, here = (run(each, directory, data) for each in (theirs, ours))
            theirs, ours = (read(os.path.join(directory, file)) for file in ("theirs", "ours"))
            yield name, theirs, ours, there, here


def main():
    words = [word for word in sys.argv[1:] if word != "-v"]
    if not words:
        sys.exit(__doc__)
    truecount, chosen = os.path.realpath(words[0]), words[1:]
    code, said = Code(), []
    print("| program | Ir: Callgrind | truecount | instructions of the same count | functions of the same own Ir | callees of the same count | CPU s: Callgrind | truecount |")
    print("|---|---|---|---|---|---|---|---|")
    for name, theirs, ours, there, here in both(truecount, chosen, ["--dump-line=no", "--dump-instr=yes"], 8, Profile):
        aligned(theirs, ours)
        instructions, functions, callees, differences = compared(theirs, ours, code)
        strings = f" ({functions[2]} but for repeated strings)" if functions[2] else ""
        print(f"| {name} | {theirs.total:,} | {ours.total:,} | {instructions[0]:,} of {instructions[1]:,} | {functions[0]} of {functions[1]}{strings} | "
              f"{callees[0]} of {callees[1]} | {there:.2f} | {here:.2f} |", flush=True)
        said += [f"{name}: {line}" for line in differences]
    print()
    limit = None if "-v" in sys.argv else 60
    print("\n".join(said[:limit]))
    print(f"{len(said)} differences")


if __name__ == "__main__":
    main()
