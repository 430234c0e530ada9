//! Options of Valgrind that are known and set nothing here.

/// Name, what its value must be, and what becomes of it.
pub(super) type Row = (&'static str, Value, Fate);

/// What an option's value must be.
#[derive(Clone, Copy)]
pub(super) enum Value {
    /// None: the option stands alone.
    Nothing,
    Boolean,
    Number,
    /// One of these words.
    Word(&'static [&'static str]),
    Text,
}

/// What becomes of an option that is known and does not set anything.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fate {
    /// It is about what is not there (errors, suppressions), or about how Valgrind works inside: silently accepted.
    Accepted,
    /// The user would miss something: accepted, and noted in the log with the reason.
    Noted(&'static str),
    /// What it asks for is not available, with the reason.
    Refused(&'static str),
}

const NO_ERRORS: Fate = Fate::Accepted;
const INSIDE: Fate = Fate::Accepted;
const NOT_SIMULATED: Fate = Fate::Noted("this is not simulated");
const NO_GDB: &str = "there is no gdbserver here";

/// Options of Valgrind's core that set nothing here, by name.
pub(super) const CORE: &[Row] = &[
    ("--verbose", Value::Nothing, INSIDE),
    ("-v", Value::Nothing, INSIDE),
    ("-d", Value::Nothing, INSIDE),
    ("-s", Value::Nothing, NO_ERRORS),
    ("--child-silent-after-fork", Value::Boolean, INSIDE),
    ("--vgdb", Value::Word(&["no", "yes", "full"]), INSIDE),
    ("--vgdb-error", Value::Number, Fate::Noted(NO_GDB)),
    ("--vgdb-stop-at", Value::Text, Fate::Noted(NO_GDB)),
    ("--vgdb-poll", Value::Number, INSIDE),
    ("--vgdb-shadow-registers", Value::Boolean, INSIDE),
    ("--vgdb-prefix", Value::Text, INSIDE),
    (
        "--track-fds",
        Value::Word(&["no", "yes", "all"]),
        Fate::Noted("descriptors are not followed"),
    ),
    (
        "--time-stamp",
        Value::Boolean,
        Fate::Noted("the log has no times"),
    ),
    (
        "--log-socket",
        Value::Text,
        Fate::Refused("use --log-file or --log-fd"),
    ),
    (
        "--xml-fd",
        Value::Number,
        Fate::Refused("these tools report no errors, so there is no XML"),
    ),
    (
        "--xml-file",
        Value::Text,
        Fate::Refused("these tools report no errors, so there is no XML"),
    ),
    (
        "--xml-socket",
        Value::Text,
        Fate::Refused("these tools report no errors, so there is no XML"),
    ),
    ("--xml-user-comment", Value::Text, NO_ERRORS),
    ("--num-callers", Value::Number, NO_ERRORS),
    ("--error-limit", Value::Boolean, NO_ERRORS),
    ("--exit-on-first-error", Value::Boolean, NO_ERRORS),
    ("--error-exitcode", Value::Number, NO_ERRORS),
    ("--error-markers", Value::Text, NO_ERRORS),
    ("--show-error-list", Value::Boolean, NO_ERRORS),
    ("--keep-debuginfo", Value::Boolean, INSIDE),
    ("--show-below-main", Value::Boolean, NO_ERRORS),
    ("--default-suppressions", Value::Boolean, NO_ERRORS),
    ("--suppressions", Value::Text, NO_ERRORS),
    (
        "--gen-suppressions",
        Value::Word(&["no", "yes", "all"]),
        NO_ERRORS,
    ),
    ("--input-fd", Value::Number, NO_ERRORS),
    ("--dsymutil", Value::Boolean, INSIDE),
    ("--max-stackframe", Value::Number, INSIDE),
    ("--main-stacksize", Value::Number, INSIDE),
    ("--max-threads", Value::Number, INSIDE),
    ("--alignment", Value::Number, INSIDE),
    ("--redzone-size", Value::Number, INSIDE),
    (
        "--xtree-memory",
        Value::Word(&["none", "allocs", "full"]),
        Fate::Noted("the heap is not profiled"),
    ),
    ("--xtree-memory-file", Value::Text, INSIDE),
    (
        "--demangle",
        Value::Boolean,
        Fate::Noted("names are always demangled"),
    ),
    ("--fullpath-after", Value::Text, NO_ERRORS),
    (
        "--extra-debuginfo-path",
        Value::Text,
        Fate::Noted("debug information is looked for beside the files"),
    ),
    (
        "--debuginfo-server",
        Value::Text,
        Fate::Noted("debug information is looked for beside the files"),
    ),
    ("--allow-mismatched-debuginfo", Value::Boolean, INSIDE),
    (
        "--smc-check",
        Value::Word(&["none", "stack", "all", "all-non-file"]),
        INSIDE,
    ),
    ("--read-inline-info", Value::Boolean, INSIDE),
    ("--read-var-info", Value::Boolean, INSIDE),
    ("--run-libc-freeres", Value::Boolean, INSIDE),
    ("--run-cxx-freeres", Value::Boolean, INSIDE),
    ("--sim-hints", Value::Text, INSIDE),
    ("--fair-sched", Value::Word(&["no", "yes", "try"]), INSIDE),
    ("--kernel-variant", Value::Text, INSIDE),
    ("--merge-recursive-frames", Value::Number, NO_ERRORS),
    ("--num-transtab-sectors", Value::Number, INSIDE),
    ("--avg-transtab-entry-size", Value::Number, INSIDE),
    ("--aspace-minaddr", Value::Text, INSIDE),
    ("--valgrind-stacksize", Value::Number, INSIDE),
    ("--show-emwarns", Value::Boolean, INSIDE),
    (
        "--require-text-symbol",
        Value::Text,
        Fate::Noted("it is not looked for"),
    ),
    ("--soname-synonyms", Value::Text, INSIDE),
    ("--sigill-diagnostics", Value::Boolean, INSIDE),
    ("--unw-stack-scan-thresh", Value::Number, INSIDE),
    ("--unw-stack-scan-frames", Value::Number, INSIDE),
    (
        "--resync-filter",
        Value::Word(&["no", "yes", "verbose"]),
        INSIDE,
    ),
    ("--progress-interval", Value::Number, INSIDE),
    ("--profile-heap", Value::Boolean, INSIDE),
    ("--profile-flags", Value::Text, INSIDE),
    ("--sym-offsets", Value::Boolean, INSIDE),
    ("--trace-flags", Value::Text, INSIDE),
    ("--trace-notbelow", Value::Number, INSIDE),
    ("--trace-notabove", Value::Number, INSIDE),
    ("--trace-redir", Value::Boolean, INSIDE),
    ("--trace-sched", Value::Boolean, INSIDE),
    ("--trace-signals", Value::Boolean, INSIDE),
    ("--trace-symtab", Value::Boolean, INSIDE),
    ("--trace-symtab-patt", Value::Text, INSIDE),
    ("--trace-cfi", Value::Boolean, INSIDE),
    ("--trace-syscalls", Value::Boolean, INSIDE),
    ("--wait-for-gdb", Value::Boolean, Fate::Noted(NO_GDB)),
    ("--stats", Value::Boolean, INSIDE),
    ("--sanity-level", Value::Number, INSIDE),
    ("--scheduling-quantum", Value::Number, INSIDE),
    ("--command-line-only", Value::Boolean, INSIDE),
];

/// Options of the cache simulators.
pub(super) const CACHES: &[Row] = &[(
    "--L2",
    Value::Text,
    Fate::Noted("the last level is named --LL"),
)];

/// Options of Callgrind that set nothing here.
pub(super) const CALLGRIND: &[Row] = &[
    (
        "--dump-every-bb",
        Value::Number,
        Fate::Noted("the profile is not dumped every so many blocks"),
    ),
    (
        "--fn-skip",
        Value::Text,
        Fate::Noted("no function is left out"),
    ),
    (
        "--obj-skip",
        Value::Text,
        Fate::Noted("no object is left out"),
    ),
    ("--skip-plt", Value::Boolean, INSIDE),
    ("--skip-direct-rec", Value::Boolean, INSIDE),
    (
        "--separate-callers",
        Value::Number,
        Fate::Noted("functions are not told apart by their callers"),
    ),
    (
        "--separate-recs",
        Value::Number,
        Fate::Noted("recursions are not told apart"),
    ),
    (
        "--collect-jumps",
        Value::Boolean,
        Fate::Noted("jumps are not written"),
    ),
    (
        "--collect-bus",
        Value::Boolean,
        Fate::Noted("global bus events are not written"),
    ),
    (
        "--collect-systime",
        Value::Word(&["no", "yes", "msec", "usec", "nsec"]),
        Fate::Noted("the time of system calls is not measured"),
    ),
    ("--simulate-wb", Value::Boolean, NOT_SIMULATED),
    ("--simulate-hwpref", Value::Boolean, NOT_SIMULATED),
    ("--cacheuse", Value::Boolean, NOT_SIMULATED),
];
