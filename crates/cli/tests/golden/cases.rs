//! The command lines, and the files that they read.

use std::path::Path;

use crate::mask::Mask::{
    FieldNames, FirstColumn, Headings, LastColumn, Nothing, Numbers, Rows, SecondColumn, Shape,
    Size, Sorted, Tags,
};
use crate::{Case, case};

/// Assembly, so that every count is the same with every compiler: `hot` is 4 instructions a turn, `cold` a tenth of it.
#[cfg(target_arch = "x86_64")]
pub(crate) const PROGRAM: &str = r#"
    .globl _start
    .type _start, @function
_start:
    mov $10000, %rdi
    cmpq $1, (%rsp)
    je 1f
    mov $200000000, %rdi
1:  call hot
    mov $1000, %rdi
    call cold
    mov $60, %eax
    xor %edi, %edi
    syscall
    .size _start, . - _start
    .type hot, @function
hot:
    xor %eax, %eax
turn:
    add %rdi, %rax
    sub $1, %rdi
    jne turn
    ret
    .size hot, . - hot
    .type cold, @function
cold:
    xor %eax, %eax
1:  add (%rsp), %rax
    sub $1, %rdi
    jne 1b
    ret
    .size cold, . - cold
    .section .note.GNU-stack, "", @progbits
"#;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) const PROGRAM: &str = r#"
    .globl _start
    .type _start, %function
_start:
    ldr x0, [sp]
    cmp x0, #1
    mov x0, #10000
    b.eq 1f
    mov x0, #0xbeb0000
1:  bl hot
    mov x0, #1000
    bl cold
    mov x8, #93
    mov x0, #0
    svc #0
    .size _start, . - _start
    .type hot, %function
hot:
    add x1, x1, x0
    subs x0, x0, #1
    b.ne hot
    ret
    .size hot, . - hot
    .type cold, %function
cold:
    ldr x1, [sp]
    subs x0, x0, #1
    b.ne cold
    ret
    .size cold, . - cold
"#;

/// A text of `perf script -F ip,brstack`: a loop of two blocks, one of them mispredicted now and then.
fn branch_stacks() -> String {
    let mut text = String::new();
    for sample in 0..40 {
        text.push_str("          401100 ");
        for entry in 0..16 {
            let (cycles, flag) = if (sample + entry) % 5 == 0 {
                (31, 'M')
            } else {
                (12 + (sample * 7 + entry) % 3, 'P')
            };
            let (from, to) = if entry % 2 == 0 {
                ("0x401130", "0x401110")
            } else {
                ("0x401118", "0x401120")
            };
            text.push_str(&format!(" {from}/{to}/{flag}/-/-/{cycles}"));
        }
        text.push('\n');
    }
    text
}

pub(crate) fn write_files(directory: &Path) {
    std::fs::write(directory.join("stacks.txt"), branch_stacks()).unwrap();
    std::fs::write(directory.join("text"), "no recording\n").unwrap();
}

/// Two runs of a program with two regions, and a third that has one region more.
pub(crate) fn write_profiles(directory: &Path) {
    for (name, turns) in [("a-1", 3), ("a-2", 3), ("b-1", 4)] {
        let recorder = truecount::Recorder::new(directory.join(name)).unwrap();
        {
            let _outer = recorder.region("outer");
            for number in 0..turns {
                let _inner = recorder.region_with("inner", &[&number.to_string()]);
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        recorder.finish().unwrap();
    }
}

pub(crate) static FIXED: [Case; 42] = [
    case("man/truecount", "man", Nothing),
    case("man/bench", "man bench", Size),
    case("man/profile", "man profile", Size),
    case("completions/bash", "completions bash", Size),
    case("completions/zsh", "completions zsh", Size),
    case("completions/fish", "completions fish", Size),
    case("events/cpus", "events --cpu list", Nothing),
    case("events/zen4", "events --cpu zen4 ls_*dc*", Nothing),
    case(
        "events/skl-long",
        "events --cpu skl MEM_LOAD_RETIRED.L1_HIT --long",
        Nothing,
    ),
    case("events/arm", "events --cpu neoverse-n1 L1D_CACHE", Nothing),
    case("events/json", "events --cpu skl INST_RETIRED --json", Shape),
    case("events/metrics", "events --metrics --cpu spr", Nothing),
    case(
        "events/metric-long",
        "events --metrics --cpu spr topdown-1 --long",
        Nothing,
    ),
    case(
        "events/metrics-json",
        "events --metrics --cpu zen4 --json",
        Shape,
    ),
    case("events/none", "events --cpu skl nosuchevent", Nothing).status(1),
    case("overhead/model-only", "overhead --model-only", Nothing),
    case(
        "overhead/model-inputs",
        "overhead --model-only --input delivery_ns=500",
        Nothing,
    ),
    case("overhead/model-json", "overhead --model-only --json", Shape),
    case("blocks/text", "blocks stacks.txt", Nothing),
    case(
        "blocks/text-block",
        "blocks stacks.txt --block 0x401110",
        Nothing,
    ),
    case(
        "blocks/text-compare",
        "blocks stacks.txt --block 0x401110 --compare stacks.txt",
        Nothing,
    ),
    case("blocks/text-json", "blocks stacks.txt --json", Shape),
    case("blocks/text-csv", "blocks stacks.txt --csv", Nothing),
    case(
        "blocks/text-html",
        "blocks stacks.txt --html /dev/stdout",
        Tags,
    ),
    case(
        "blocks/text-svg",
        "blocks stacks.txt --svg /dev/stdout",
        Tags,
    ),
    // Mistakes: the whole message and the status.
    case("mistakes/no-command", "", Nothing).status(2),
    case("mistakes/unknown-command", "stt", Nothing).status(2),
    case("mistakes/unknown-option", "check --jsn", Nothing).status(2),
    case("mistakes/no-program", "stat", Nothing).status(2),
    case(
        "mistakes/program-not-found",
        "stat -- truecount-no-such-program",
        Nothing,
    )
    .status(127),
    case(
        "mistakes/bench-not-found",
        "bench truecount-no-such-program",
        Nothing,
    )
    .status(127),
    case(
        "mistakes/unknown-event",
        "stat -e instrctions:u -- true",
        Nothing,
    )
    .status(2),
    case("mistakes/unknown-metric", "stat -M ipcc -- true", Nothing).status(2),
    case("mistakes/require", "check --require nonsense", Nothing).status(2),
    case("mistakes/unknown-cpu", "events --cpu nosuchcpu", Nothing).status(2),
    case("mistakes/no-recording", "report none.data", Nothing).status(1),
    case("mistakes/not-a-recording", "report text", Nothing).status(1),
    case("mistakes/blocks-no-recording", "blocks none.data", Nothing).status(1),
    case("mistakes/no-profile", "profile summarize none", Nothing).status(1),
    case("mistakes/not-a-profile", "profile show text", Nothing).status(1),
    case(
        "mistakes/model-input",
        "overhead --model-only --input nosuch=1",
        Nothing,
    )
    .status(2),
    case("mistakes/discover-range", "discover --select 0xzz", Nothing).status(2),
];

pub(crate) static ANYWHERE: [Case; 5] = [
    case("check/text", "check", SecondColumn).at_least(),
    case("check/json", "check --json", Shape).at_least(),
    case("system/json", "system --json -n 1 -I 50", Shape).at_least(),
    case(
        "system/prometheus",
        "system --prometheus -I 50",
        FirstColumn,
    )
    .at_least(),
    case("system/text", "system -n 1 -I 50", Rows).at_least(),
];

pub(crate) static SOFTWARE: [Case; 16] = [
    case(
        "stat/software",
        "stat --source software -- true",
        LastColumn,
    ),
    case(
        "stat/software-csv",
        "stat --source software --csv -- true",
        FieldNames,
    ),
    case(
        "stat/software-json",
        "stat --source software --json -- true",
        Shape,
    ),
    case(
        "stat/repeat",
        "stat --source software -e page-faults,wall-time -r 3 -- true",
        LastColumn,
    ),
    case(
        "stat/repeat-json",
        "stat --source software -e page-faults,wall-time -r 3 --json -- true",
        Shape,
    ),
    case(
        "stat/interval-csv",
        "stat --source software -e page-faults -I 50 --csv -- sleep 0.01",
        Numbers,
    )
    .at_least(),
    case(
        "stat/status",
        "stat --source software -e page-faults -- sh -c exit${IFS}7",
        Numbers,
    )
    .status(7),
    case(
        "stat/timeout",
        "stat --source software -e page-faults --timeout 50ms -- sleep 5",
        LastColumn,
    )
    .status(124),
    case(
        "stat/metrics",
        "stat --source software -e page-faults -M cpus-utilized -- true",
        LastColumn,
    ),
    case("bench/software", "bench --source software -n 3 true", Rows),
    case(
        "bench/only",
        "bench --only -e wall-time --seed 1 -n 7 true true",
        Rows,
    ),
    case(
        "bench/ranges",
        "bench --only -e wall-time --seed 1 -n 2 -P n 1..2 -- echo {n}",
        Rows,
    ),
    case(
        "bench/json",
        "bench --source software -n 3 --json true true",
        Shape,
    ),
    case(
        "bench/csv",
        "bench --only -e wall-time -n 3 --csv true",
        FieldNames,
    ),
    case(
        "bench/html",
        "bench --only -e wall-time -n 7 --html /dev/stdout true true",
        Tags,
    ),
    case("bench/failing", "bench -n 2 false", Numbers).status(1),
];

pub(crate) static VIRTUAL: [Case; 45] = [
    case("stat/virtual", "stat --source virtual -- ./prog", Numbers),
    case(
        "stat/virtual-json",
        "stat --source virtual --json -- ./prog",
        Shape,
    ),
    case(
        "stat/virtual-csv",
        "stat --source virtual --csv -- ./prog",
        Nothing,
    ),
    case(
        "stat/virtual-events",
        "stat --source virtual -e instructions:u,branches:u,loads:u,cycles:u -- ./prog",
        Numbers,
    ),
    case(
        "stat/virtual-repeat",
        "stat --source virtual -r 2 -- ./prog",
        Numbers,
    ),
    case("run/text", "run -- ./prog", Nothing),
    case(
        "run/events",
        "run -e instructions:u,branches:u,conditional-branches:u,calls:u,returns:u -- ./prog",
        Nothing,
    ),
    case("run/json", "run --json -- ./prog", Shape),
    case(
        "run/per-thread",
        "run --per-thread --per-process -- ./prog",
        Numbers,
    ),
    case(
        "run/per-thread-json",
        "run --per-thread --per-process --json -- ./prog",
        Shape,
    ),
    case("run/functions", "run --functions -- ./prog", Nothing),
    case(
        "run/functions-events",
        "run --functions -e instructions:u,branches:u -- ./prog",
        Nothing,
    ),
    case(
        "run/functions-json",
        "run --functions --json -- ./prog",
        Shape,
    ),
    case(
        "run/flamegraph",
        "run --flamegraph /dev/stdout -- ./prog",
        Tags,
    ),
    case(
        "run/deterministic",
        "run --deterministic -- ./prog",
        Nothing,
    ),
    case(
        "run/deterministic-json",
        "run --deterministic --json -- ./prog",
        Shape,
    ),
    case(
        "run/deterministic-some",
        "run --deterministic=aslr,getrandom,clock -- ./prog",
        Nothing,
    ),
    case("run/status", "run -- sh -c exit${IFS}7", Numbers).status(7),
    case("run/not-counted", "run -e cycles:u -- ./prog", Nothing).status(2),
    case(
        "run/unknown-factor",
        "run --deterministic=nosuch -- ./prog",
        Nothing,
    )
    .status(2),
    case(
        "bench/virtual-parameter",
        "bench --source virtual --only -e instructions:u --seed 1 -n 3 -L arg a,b -- ./prog {arg}",
        Numbers,
    ),
    case(
        "bench/virtual-two",
        "bench --source virtual --only -e instructions:u --seed 1 -n 3 ./prog ./prog",
        Numbers,
    ),
    case(
        "bench/virtual-gate",
        "bench --source virtual --only -e instructions:u --seed 1 -n 3 --fail-above instructions:u=1% ./prog ./prog",
        Numbers,
    ),
    case(
        "bench/virtual-json",
        "bench --source virtual --only -e instructions:u --seed 1 -n 3 --json ./prog ./prog",
        Shape,
    ),
    case(
        "bench/virtual-csv",
        "bench --source virtual --only -e instructions:u --seed 1 -n 3 --csv ./prog ./prog",
        Numbers,
    ),
    case(
        "bench/virtual-markdown",
        "bench --source virtual --only -e instructions:u --seed 1 -n 3 --markdown ./prog ./prog",
        Numbers,
    ),
    case(
        "bench/virtual-html",
        "bench --source virtual --only -e instructions:u --seed 1 -n 3 --html /dev/stdout ./prog ./prog",
        Tags,
    ),
    case(
        "bench/virtual-names",
        "bench --source virtual --only -e instructions:u --seed 1 -n 3 -N one -N two ./prog ./prog",
        Numbers,
    ),
    case(
        "bench/save",
        "bench --source virtual --only -e instructions:u --seed 1 -n 3 --save base.json ./prog",
        Numbers,
    ),
    case(
        "bench/baseline",
        "bench --source virtual --only -e instructions:u --seed 1 -n 3 --baseline base.json --fail-above instructions:u=1% ./prog",
        Numbers,
    ),
    case(
        "noise/text",
        "noise --source virtual -n 2 --seed 1 -- ./prog",
        FirstColumn,
    )
    .at_least(),
    case(
        "noise/json",
        "noise --source virtual -n 2 --seed 1 --json -- ./prog",
        Shape,
    ),
    case(
        "noise/factors",
        "noise --source virtual -n 2 --seed 1 --factors aslr,env -- ./prog",
        Nothing,
    ),
    case(
        "noise/html",
        "noise --source virtual -n 2 --seed 1 --html /dev/stdout -- ./prog",
        Tags,
    ),
    case(
        "exactness/text",
        "exactness --source virtual --seconds 0.1 --no-save --seed 1 -e instructions:u",
        Rows,
    ),
    case(
        "exactness/json",
        "exactness --source virtual --seconds 0.1 --no-save --json -e instructions:u",
        Shape,
    ),
    case("latency/text", "latency turn -- ./prog", Headings),
    case("latency/json", "latency turn --json -- ./prog", Shape),
    case(
        "latency/html",
        "latency turn --html /dev/stdout -- ./prog",
        Tags,
    ),
    case("latency/unknown", "latency nosuch -- ./prog", Nothing).status(1),
    case("blocks/moved", "blocks --time turn -- ./prog", Nothing).status(2),
    case("run/output", "run -o out.txt -- ./prog", Nothing),
    case("run/clear-cache", "run --clear-cache", Numbers),
    case(
        "stat/virtual-deterministic",
        "stat --source virtual --deterministic -- ./prog",
        Numbers,
    ),
    case(
        "stat/virtual-output",
        "stat --source virtual -o out.txt -- ./prog",
        Numbers,
    ),
];

pub(crate) static STEP: [Case; 3] = [
    case("stat/step", "stat --source step -- ./prog", Numbers),
    case(
        "stat/step-json",
        "stat --source step --json -- ./prog",
        Shape,
    ),
    case(
        "bench/step",
        "bench --source step --only -e instructions:u --seed 1 -n 2 ./prog",
        Numbers,
    ),
];

pub(crate) static PROFILES: [Case; 23] = [
    case(
        "profile/summarize",
        "profile summarize a-1 --sort item",
        Numbers,
    ),
    case(
        "profile/summarize-json",
        "profile summarize a-1 --json",
        Shape,
    ),
    case(
        "profile/summarize-two",
        "profile summarize a-1 a-2 --sort item",
        Numbers,
    ),
    case(
        "profile/summarize-versus",
        "profile summarize a-1 a-2 --versus b-1 --sort item",
        Numbers,
    ),
    case(
        "profile/summarize-columns",
        "profile summarize a-1 --columns item,count --sort item",
        Numbers,
    ),
    case(
        "profile/summarize-overhead",
        "profile summarize a-1 --subtract-overhead --sort item",
        Numbers,
    ),
    case(
        "profile/only",
        "profile summarize a-1 --only inner",
        Numbers,
    ),
    case("profile/aggregate", "profile aggregate a-1 a-2", Sorted),
    case(
        "profile/aggregate-json",
        "profile aggregate a-1 a-2 --json",
        Shape,
    ),
    case("profile/diff", "profile diff a-1 -- b-1", Numbers),
    case("profile/diff-json", "profile diff --json a-1 -- b-1", Shape),
    case(
        "profile/diff-gate",
        "profile diff --fail-above 1000 a-1 -- b-1",
        Numbers,
    )
    .status(4),
    case("profile/show", "profile show a-1", Numbers),
    case("profile/show-json", "profile show a-1 --json", Shape),
    case(
        "profile/show-metadata",
        "profile show a-1 --metadata",
        FirstColumn,
    ),
    case(
        "profile/show-filtered",
        "profile show a-1 --label inner -n 2",
        Numbers,
    ),
    case("profile/chrome", "profile export --to chrome a-1", Shape),
    case("profile/firefox", "profile export --to firefox a-1", Shape),
    case("profile/json", "profile export --to json a-1", Shape),
    case("profile/folded", "profile export --to folded a-1", Numbers),
    case("profile/svg", "profile export --to svg a-1", Tags),
    case(
        "profile/perfetto",
        "profile export --to perfetto a-1 -o a.pftrace",
        Numbers,
    ),
    case(
        "profile/pprof",
        "profile export --to pprof a-1 -o a.pprof",
        Numbers,
    ),
];

pub(crate) static RECORDED: [Case; 15] = [
    case(
        "record/period",
        "record -e cpu-clock:u -c 200000 -o q.data -- ./prog spin",
        Numbers,
    ),
    case(
        "record/frequency",
        "record -e cpu-clock:u -F 500 -o q.data -- ./prog spin",
        Numbers,
    ),
    case(
        "record/not-counted",
        "record -o q.data -e nosuch -- ./prog",
        Nothing,
    )
    .status(2),
    case("report/symbol", "report p.data --top 1", LastColumn).at_least(),
    case("report/line", "report p.data --by line --top 1", LastColumn).at_least(),
    case("report/dso", "report p.data --by dso", LastColumn).at_least(),
    case("report/process", "report p.data --by process", LastColumn).at_least(),
    case("report/thread", "report p.data --by thread", LastColumn).at_least(),
    case("report/json", "report p.data --json", Shape),
    case("report/annotate", "report p.data --annotate hot", Rows),
    case("report/diff", "report p.data --diff p.data --top 1", Rows).at_least(),
    case(
        "report/flamegraph",
        "report p.data --flamegraph /dev/stdout",
        Tags,
    ),
    case(
        "report/firefox",
        "report p.data --firefox /dev/stdout",
        FirstColumn,
    ),
    case(
        "top/once",
        "top --once --seconds 0.3 --top 1 -e cpu-clock",
        Rows,
    )
    .at_least(),
    case(
        "top/json",
        "top --once --seconds 0.3 --json -e cpu-clock",
        Shape,
    )
    .at_least(),
];

pub(crate) static RECORDINGS: [Case; 20] = [
    case(
        "recordings/report",
        "report data/autofdo/propeller_sample.perfdata --top 5 --symfs empty",
        Nothing,
    ),
    case(
        "recordings/report-json",
        "report data/autofdo/propeller_sample.perfdata --json --symfs empty",
        Shape,
    ),
    case(
        "recordings/report-dso",
        "report data/autofdo/propeller_sample.perfdata --by dso --symfs empty",
        Nothing,
    ),
    case(
        "recordings/report-process",
        "report data/autofdo/propeller_sample.perfdata --by process --symfs empty",
        Nothing,
    ),
    case(
        "recordings/report-address",
        "report data/autofdo/propeller_sample.perfdata --by address --top 5 --symfs empty",
        Nothing,
    ),
    case(
        "recordings/report-cpu",
        "report data/autofdo/propeller_sample.perfdata --by cpu --symfs empty",
        Nothing,
    ),
    case(
        "recordings/report-events",
        "report data/perf_data_converter/perf.data.lost_samples-4.4 --by process --symfs empty",
        Nothing,
    ),
    case(
        "recordings/report-chains",
        "report data/linux-perf-data/fibo.compressed2.pipe.data --by chain --top 3 --symfs empty",
        Nothing,
    ),
    case(
        "recordings/report-callers",
        "report data/linux-perf-data/fibo.compressed2.pipe.data --by caller --top 3 --symfs empty",
        Nothing,
    ),
    case(
        "recordings/report-diff",
        "report data/linux-perf-data/sleep.data --diff data/linux-perf-data/sleep.compressed2.data --symfs empty --by process",
        Nothing,
    ),
    case(
        "recordings/damaged",
        "report data/perf_data_converter/perf.data.piped.corrupted.zero_size_sample-3.2",
        Nothing,
    )
    .status(1),
    case(
        "recordings/blocks",
        "blocks data/autofdo/propeller_sample.perfdata --top 5 --symfs empty",
        Nothing,
    ),
    case(
        "recordings/blocks-json",
        "blocks data/autofdo/propeller_sample.perfdata --json --symfs empty",
        Shape,
    ),
    case(
        "recordings/blocks-csv",
        "blocks data/autofdo/propeller_sample.perfdata --csv --top 5 --symfs empty",
        Nothing,
    ),
    case(
        "recordings/blocks-block",
        "blocks data/autofdo/propeller_sample.perfdata --block 0x1281 --symfs empty",
        Nothing,
    ),
    case(
        "recordings/blocks-html",
        "blocks data/autofdo/propeller_sample.perfdata --html /dev/stdout --symfs empty",
        Tags,
    ),
    case(
        "recordings/blocks-without-stacks",
        "blocks data/autofdo/ro_sample.perf",
        Nothing,
    )
    .status(1),
    case(
        "recordings/blocks-without-cycles",
        "blocks data/perf_data_converter/perf.data.branch_stack_spec --symfs empty",
        Nothing,
    ),
    case(
        "recordings/flamegraph",
        "report data/linux-perf-data/fibo.compressed2.pipe.data --flamegraph /dev/stdout --symfs empty",
        Tags,
    ),
    case(
        "recordings/pprof",
        "report data/linux-perf-data/sleep.data --pprof out.pb --symfs empty",
        Nothing,
    ),
];
