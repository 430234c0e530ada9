//! Inputs that the parsers take, to begin with.

use crate::machine::{BETWEEN, FILES};

fn texts(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub(crate) fn none() -> Vec<Vec<u8>> {
    Vec::new()
}

pub(crate) fn event_expr() -> Vec<Vec<u8>> {
    texts(&[
        "{instructions:u,branches:u}:S,cpu/event=0xc4,umask=0x20,name=x/ppH",
        "echo.event-1.umask-2,r01cb:u,wall-time",
    ])
}

pub(crate) fn cpu_text() -> Vec<Vec<u8>> {
    texts(&[
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nstepping\t: 1\n",
        "CPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n",
        "0-3,8,10-11:1/2",
        "config:0-7,32-35",
        "0xc0..0xcc,0xd0,17",
        "instrctions",
    ])
}

pub(crate) fn metric_expr() -> Vec<Vec<u8>> {
    texts(&[
        "if(cycles > 0, 1 - (slots - max(a, b)) / (4 * cycles), min(x.y, 2))",
        "((a + b) * 1e-3) / -c - `cpu_core/event=0xc4/`",
        "cpu_core@event\\=0xc4@ / #core_wide",
    ])
}

pub(crate) fn metrics_file() -> Vec<Vec<u8>> {
    let all = include_str!("../../events/data/metrics.toml");
    // The first three metrics.
    let parts: Vec<&str> = all.split("[[pack.metric]]").take(4).collect();
    vec![parts.join("[[pack.metric]]").into_bytes()]
}

pub(crate) fn vendor_events() -> Vec<Vec<u8>> {
    texts(&[
        r#"[{"EventName":"INST_RETIRED.ANY","EventCode":"0xC0,0xC1","UMask":"0x1","SampleAfterValue":"2000003",
"PEBS":"1","Counter":"0,1","CounterMask":"1","Invert":"0","MSRIndex":"0x1A6,0x1A7","MSRValue":"0x10003C0001"}]"#,
        r#"{"Header":{},"Events":[{"ArchStdEvent":"L1D_CACHE"},{"EventName":"x","ConfigCode":"0x11","Unit":"L3"}]}"#,
        "Family-model,Version,Filename,EventType\nGenuineIntel-6-9[7A],v1,/events.json,core\n",
        "GenuineIntel-6-97,v1,/events.json,hybridcore,0x40,0x000001,Core\n",
    ])
}

pub(crate) fn proc_text() -> Vec<Vec<u8>> {
    texts(&[
        "cpu  9 9\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 8 0 0\nintr 5 1 1\nctxt 77\nprocs_running 1\n",
        "           CPU0       CPU2\n 24:          1          2  IO-APIC  timer\nLOC:         10         20  Local\nERR: 0\n",
    ])
}

pub(crate) fn branch_text() -> Vec<Vec<u8>> {
    let mut text = String::new();
    for sample in 0..8 {
        text.push_str("    401100 ");
        for entry in 0..8 {
            let (from, to) = if entry % 2 == 0 {
                ("0x401130", "0x401110")
            } else {
                ("0x401118", "0x401120")
            };
            text.push_str(&format!(" {from}/{to}/P/-/-/{}", 10 + (sample * entry) % 5));
        }
        text.push('\n');
    }
    vec![text.into_bytes()]
}

pub(crate) fn kallsyms() -> Vec<Vec<u8>> {
    texts(&[
        "ffffffff81000000 T _stext\nffffffff81000100 t do_work\nffffffff81000180 d a_table\n\
         ffffffffc0000000 t probe\t[some_module]\n",
        "7f0000000000-7f0000021000 r-xp 00001000 08:01 77  /usr/lib/x y.so (deleted)\n",
    ])
}

pub(crate) fn shell_words() -> Vec<Vec<u8>> {
    texts(&[
        r#"env A=1 ./prog "a b" 'c"d' e\ f --opt=~x"#,
        "a \"$x\" `b` | c; # d",
        "x '' \"\\$\" \\\n y",
    ])
}

pub(crate) fn arguments() -> Vec<Vec<u8>> {
    texts(&[
        "250ms",
        "1.5 m",
        "0-3,8",
        "0x7f00",
        "0.5%",
        "instructions:u=2%",
        "1..8:2",
        "-0.1..0.5:0.1",
        "a,b,c",
        "all,time,-threads",
        "instructions",
    ])
}

pub(crate) fn command_line() -> Vec<Vec<u8>> {
    texts(&[
        "stat -e instructions:u,cycles -r 3 --timeout 2s --json=x -- ls -l",
        "bench -n 5 -P n 1..3 -L m a,b --fail-above instructions:u=1% 'prog {n} {m}' -N a",
        "noise --factors all --json -n 7 -- true",
        "latency main+0x10..main+0x20 -- true",
        "system --per core -M ipc",
        "discover --reference page-faults:u --resume x",
    ])
}

pub(crate) fn documents() -> Vec<Vec<u8>> {
    let bench = concat!(
        r#"{"schema":"truecount.bench/2","commands":[{"command":["a"],"name":"a","runs":6,"#,
        r#""metrics":{"instructions:u":{"unit":"count","source":"virtual","precision":"exact","#,
        r#""samples":[7,7,8,9,7,7],"rounds":[0,1,2,3,4,6],"min":7,"median":7,"max":9,"mad":0.0,"#,
        r#""distinct":3,"exact":false},"wall-time":{"unit":"ns","source":"software","precision":"#,
        r#""counted","samples":[5,6,7,8,9,10],"min":5,"median":7.5,"max":10,"mad":1.5,"#,
        r#""distinct":6,"exact":false}}}],"seed":1,"rounds":7,"environment":"#
    );
    let environment = truecount_run::env_record::Environment::gather(true, &[]);
    let environment = serde_json::to_string(&environment).expect("a record");
    let latency = concat!(
        r#"{"schema":"truecount.latency/1","source":"virtual","command":"a","program":"a","#,
        r#""processes":1,"exit":0,"cost":{"cycles":20,"p10":18,"p90":24,"measured":9,"step":2.0},"#,
        r#""intervals":[{"name":"f","#,
        r#""start":4096,"end":4128,"cycles":{"bins":[[20,3],[22,9],[40,2]]},"below_cost":1,"#,
        r#""longer":0,"loads":true}],"notes":[]}"#
    );
    texts(&[&format!("{bench}{environment}}}"), latency])
}

pub(crate) fn scan_state() -> Vec<Vec<u8>> {
    texts(&[concat!(
        r#"{"schema":"truecount.discover-state/1","machine":"m","runs":3,"filter":"u","#,
        r#""references":[],"command":"","state":{"phases":[],"batches":[{"counted":[],"#,
        r#""silent":[{"code":192,"umask":1}],"references":[]}],"not_opened":[],"not_counted":[],"#,
        r#""asked":[],"sums":[],"complete":true}}"#
    )])
}

pub(crate) fn verdicts() -> Vec<Vec<u8>> {
    texts(&[concat!(
        r#"{"schema":"truecount.exactness-profile/1","counters":[{"event":"instructions:u","#,
        r#""source":"hardware","verdict":{"kind":"per-turn","text":"+1"},"measured":1}]}"#
    )])
}

/// A 64-bit file with a segment, an interpreter, a build id and three sections.
pub(crate) fn elf() -> Vec<Vec<u8>> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let half = |file: &mut Vec<u8>, words: &[u16]| {
        words
            .iter()
            .for_each(|word| file.extend(word.to_le_bytes()));
    };
    half(&mut file, &[2, 62, 1, 0]);
    // Entry, program headers, section headers.
    for word in [0x40_0000_u64, 64, 64 + 3 * 56 + 72] {
        file.extend(word.to_le_bytes());
    }
    half(&mut file, &[0, 0, 64, 56, 3, 64, 3, 2]);
    let data = 64 + 3 * 56;
    // PT_LOAD, PT_INTERP, PT_NOTE; the data: 16 bytes of text, the interpreter, the note, names of sections.
    for (kind, at, size) in [(1_u32, 0_u64, data + 72), (3, data, 8), (4, data + 8, 36)] {
        file.extend(kind.to_le_bytes());
        file.extend(5_u32.to_le_bytes());
        for word in [at, 0x40_0000 + at, 0x40_0000 + at, size, size, 8] {
            file.extend(word.to_le_bytes());
        }
    }
    file.extend(b"/ld.so\0\0");
    for word in [4_u32, 20, 3] {
        file.extend(word.to_le_bytes());
    }
    file.extend(b"GNU\0");
    file.extend([0xab; 20]);
    file.extend(b"\0.text\0.shstrtab\0\0\0\0\0\0\0\0\0\0\0\0");
    for (name, kind, at, size) in [
        (0_u32, 0_u32, 0_u64, 0_u64),
        (1, 1, data, 8),
        (7, 3, data + 44, 28),
    ] {
        file.extend(name.to_le_bytes());
        file.extend(kind.to_le_bytes());
        for word in [0, 0x40_0000 + at, at, size, 0, 1, 0] {
            file.extend(word.to_le_bytes());
        }
    }
    vec![file]
}

pub(crate) fn code() -> Vec<Vec<u8>> {
    vec![
        vec![
            0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 0x08, 0xf0, 0x0f, 0xb1, 0x0f, 0x75, 0xf7,
        ],
        // A VEX and an EVEX instruction, a repeated one, a call through memory.
        vec![
            0xc5, 0xfc, 0x28, 0xc1, 0x62, 0xf1, 0x7c, 0x48, 0x28, 0xc1, 0xf3, 0xa4, 0xff, 0x15, 1,
            2, 3, 4,
        ],
        vec![
            0xe0, 0x03, 0x00, 0x91, 0x21, 0x00, 0x40, 0xf9, 0xa1, 0xff, 0xff, 0x54,
        ],
    ]
}

pub(crate) fn cpuid() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for words in [
        [0_u32, 0x20, 0x756e_6547, 0x6c65_746e, 0x4965_6e69],
        [1, 0x0005_06e3, 0x0010_0800, 0x7ffa_fbbf, 0xbfeb_fbff],
        [0xa, 0x0730_0404, 0, 0, 0x603],
        [0x8000_0000, 0x8000_0022, 0, 0, 0],
        [0x8000_0022, 1, 0x0004_0e06, 0, 0],
        [0x4000_0000, 0x4000_0001, 0x4b4d_564b, 0x564b_4d56, 0x4d],
    ] {
        words.iter().for_each(|word| out.extend(word.to_le_bytes()));
    }
    vec![out]
}

pub(crate) fn kept_translations() -> Vec<Vec<u8>> {
    let mut file = vec![0; 3 * 4096];
    // Each piece: an offset of whole pages, and a length.
    for (number, place) in file.chunks_mut(16).skip(3).take(12).enumerate() {
        let words = [4096_u64, 64 + number as u64];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if let Some(place) = place.get_mut(..16) {
            place.copy_from_slice(&bytes);
        }
    }
    vec![file]
}

pub(crate) fn script_text() -> Vec<Vec<u8>> {
    texts(&[
        "sh 77/78 [001] 12.700000: 250000 cpu-clock:u: \n\t 55d0 in+0x1 (inlined)\n\t 55d0 out(int)+0x20 (/a b/prog)\n\n\
sh 77 12.7: 1 cycles:ppp:  ffffffff81000010 do_syscall_64+0x5 ([kernel.kallsyms])\n\
Web Content 9/9 13.5: 1 cycles: 7f00 [unknown] ([unknown])\n",
    ])
}

/// Parts in the order of [`FILES`].
pub(crate) fn facts() -> Vec<Vec<u8>> {
    let virtual_machine = [
        "2",
        "6.12.9-amd64",
        "Name:\tx\nCapEff:\t0000004000000000\nSeccomp:\t2\n",
        "         0       1000          1\n",
        "Limit  Soft  Hard Units\nMax open files            1024                 4096 files\n",
        "0::/kubepods/pod1",
        "00040000",
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 94\nstepping\t: 3\nflags\t: hypervisor\n",
        "none [integrity] confidentiality",
        "0-1",
        "0-1",
        "4",
        "32",
        "config:0-7",
        "config:8-15",
        "event=0x3c,umask=0x0",
        "0-1",
        "0",
    ];
    assert_eq!(virtual_machine.len(), FILES.len());
    let between = String::from_utf8_lossy(BETWEEN);
    texts(&[&virtual_machine.join(&between)])
}

pub(crate) fn trace_formats() -> Vec<Vec<u8>> {
    let format = "name: nmi_handler\nID: 170\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:s64 delta_ns;\toffset:16;\tsize:8;\tsigned:1;\n\
        \tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;\n";
    let sized = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let number = |number: u32| number.to_le_bytes().to_vec();
    let data = [
        b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0header_page\0".to_vec(),
        sized("x"),
        b"header_event\0".to_vec(),
        sized(""),
        number(1),
        sized("name: function\nID: 1\n"),
        number(1),
        b"nmi\0".to_vec(),
        number(1),
        sized(format),
    ];
    vec![format.as_bytes().to_vec(), data.concat()]
}

pub(crate) fn dirents() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for (place, name) in [(7_u64, "beta"), (3, ".."), (12, "."), (90, "a-longer-name")] {
        let length = (19 + name.len() + 2).next_multiple_of(8);
        let mut entry = vec![0; length];
        let fields = [77_u64.to_le_bytes(), place.to_le_bytes()].concat();
        let name = [&(length as u16).to_le_bytes()[..], &[8], name.as_bytes()].concat();
        entry
            .iter_mut()
            .zip(fields.into_iter().chain(name))
            .for_each(|(place, byte)| *place = byte);
        out.extend(entry);
    }
    vec![out]
}

pub(crate) fn process_start() -> Vec<Vec<u8>> {
    let words: [u64; 13] = [2, 11, 12, 0, 21, 22, 0, 33, 7, 25, 8, 0, 0];
    let fields: Vec<String> = (3..40).map(|n| n.to_string()).collect();
    vec![
        words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        format!("17 (a) b) {}", fields.join(" ")).into_bytes(),
    ]
}

pub(crate) fn requests() -> Vec<Vec<u8>> {
    texts(&[
        "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /metrics?x=1 HTTP/1.0\n\n",
    ])
}

pub(crate) fn block_specs() -> Vec<Vec<u8>> {
    texts(&["middle", "leaf+4..middle+0x3", "0x400140..+0x20", "16"])
}

pub(crate) fn records() -> Vec<Vec<u8>> {
    texts(&[
        r#"{"schema": "truecount.record/1", "commit": {"hash": "0123456789012345678901234567890123456789", "parents": [],
"time": 1, "subject": "s"}, "taken": 1, "suite": "s", "benchmarks": [{"command": ["a"], "name": "b", "runs": 1,
"metrics": {"instructions:u": {"unit": "count", "source": "virtual", "precision": "exact", "samples": [1, 1], "distinct": 1,
"exact": true}}}], "profiles": [{"benchmark": "b", "metric": "instructions:u", "functions": [{"module": "m",
"function": "f", "value": 1}]}]}"#,
        r#"{"schema": "truecount.run/2", "command": ["a"], "counters": [{"event": "e", "value": 1, "source": "virtual",
"unit": "count"}], "functions": [{"module": "/m", "function": "f", "events": {"e": 1}}]}"#,
        r#"{"schema": "truecount.bench/2", "seed": 1, "rounds": 1, "commands": [{"command": ["a"], "name": "b n=1", "runs": 1,
"parameters": {"n": "1"}, "metrics": {"wall-time": {"unit": "ns", "samples": [5, 6], "distinct": 2, "exact": false}}}],
"environment": {"truecount": "0.1.0"}}"#,
    ])
}

pub(crate) fn imports() -> Vec<Vec<u8>> {
    texts(&[
        r#"{"results": [{"command": "a", "mean": 0.5, "times": [0.0015, 0.0016], "memory_usage_byte": [1000], "parameters": {"n": "1"}}]}"#,
        r#"{"benchmarks": [{"name": "a", "run_type": "iteration", "real_time": 12.5, "cpu_time": 1e3, "time_unit": "us", "hits": 3}]}"#,
        r#"{"metadata": {"unit": "second"}, "benchmarks": [{"metadata": {"name": "j"}, "runs": [{"values": [0.001]}]}]}"#,
        r#"{"benchmarks": [{"name": "a", "stats": {"data": [1e-6, 2e-6]}}]}"#,
        r#"{"reason":"benchmark-complete","id":"f","iteration_count":[2,4],"measured_values":[50,120],"unit":"ns"}"#,
        r#"{"iters": [10.0, 20.0], "times": [105.0, 200.0]}"#,
        r#"{"function_name": "f", "profiles": [{"total": {"Ir": {"metrics": {"Both": [{"Int": 1}, {"Int": 2}]}}}}]}"#,
        r#"{"a": {"latency": {"value": 3.5}}}"#,
        r#"[{"name": "a", "unit": "ms", "value": "2"}]"#,
        "pkg: a\nBenchmarkX-8 1000 0.25 ns/op 16 B/op 5 MB/s\n",
    ])
}

pub(crate) fn suites() -> Vec<Vec<u8>> {
    texts(&[
        "suite = 'p'\nbuild = 'make'\nreproducible = true\nenv = ['A=1']\nfacts = { compiler = 'gcc' }\n[defaults]\nruns = 1\n\
         [[benchmark]]\nname = 'a'\ncommand = './x {n}'\nparameters = { n = '1..9:4', f = ['a'] }\nlimits = { i = '1%', b = 5 }\n",
    ])
}

pub(crate) fn series() -> Vec<Vec<u8>> {
    let bytes = |values: &[f64]| {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    };
    let step: Vec<f64> = (0..60)
        .map(|i| if i < 30 { 10.0 } else { 12.0 } + f64::from(i % 3))
        .collect();
    vec![
        bytes(&step),
        bytes(&[f64::MAX, f64::MIN, 0.0, -0.0, 1e-300]),
    ]
}
