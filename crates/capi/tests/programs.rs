//! Programs in C and C++, installed and compiled as a user would, with and without the virtual PMU.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "support/mod.rs"]
mod support;

use support::{Prefix, inside, native, text};

/// The lines that begin with a word, without it.
fn of<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    text.lines()
        .filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '))
        .collect()
}

/// The constant that ten counts of the known loop have in common beyond its length.
fn constant(said: &str) -> u64 {
    let counts = of(said, "loop");
    assert_eq!(counts.len(), 10, "{said}");
    assert!(counts.iter().all(|count| *count == counts[0]), "{said}");
    counts[0].parse().expect(said)
}

#[test]
fn c_counts_a_loop_of_known_length_the_same_every_time() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    for flags in [
        &["-O0"][..],
        &["-O1"],
        &["-O2"],
        &["-O3"],
        &["-O2", "-fPIE", "-fno-omit-frame-pointer"],
        &["-O3", "-DTRUECOUNT_NO_INLINE"],
        &["-Os", "-static-truecount"],
    ] {
        let program = prefix.compile("cc", "count.c", flags);
        let Some(output) = inside(&program, &[]) else {
            return;
        };
        let said = text(&output);
        assert!(output.status.success(), "{flags:?} {said}");
        assert_eq!(of(&said, "empty"), ["0"], "{flags:?} {said}");
        // The call of the function, its entry and its end, in a library that may be a debug build.
        assert!(constant(&said) < 300, "{flags:?} {said}");
        assert!(
            said.contains("instructions:u count virtual exact=1"),
            "{said}"
        );
        assert!(
            said.contains("all counted") && said.contains("available 1 version 1"),
            "{said}"
        );
    }
}

#[test]
fn without_a_pmu_c_gets_the_cause_and_a_hint() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let program = prefix.compile("cc", "count.c", &["-O1"]);
    let output = native(&program, &[]);
    let said = text(&output);
    if output.status.success() {
        // A machine with a PMU.
        assert!(said.contains("hardware"), "{said}");
        constant(&said);
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("no counter: cannot count instructions:u"),
        "{said}"
    );
    assert!(
        of(&said, "hint:")
            .first()
            .is_some_and(|hint| hint.len() > 10),
        "{said}"
    );
}

#[test]
fn clocks_are_counted_everywhere() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let program = prefix.compile("cc", "count.c", &["-O1"]);
    let said = text(&native(&program, &["wall-time"]));
    assert!(said.contains("wall-time ns software exact=0"), "{said}");
}

#[test]
fn wrong_use_is_an_error_and_never_a_crash() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let program = prefix.compile("cc", "misuse.c", &["-O2"]);
    let file = prefix.path("regions").display().to_string();
    let output = native(&program, &["wall-time", &file]);
    assert!(
        output.status.success(),
        "{:?}\n{}",
        output.status,
        text(&output)
    );
    if let Some(output) = inside(&program, &["instructions:u", &file]) {
        assert!(
            output.status.success(),
            "{:?}\n{}",
            output.status,
            text(&output)
        );
        assert!(
            text(&output).contains("read after fork: 4"),
            "{}",
            text(&output)
        );
    }
}

/// A signal handler reads its thread's counters whatever it interrupts: a read, an allocation, a call that fails.
#[test]
fn signal_handlers_read_counters() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let program = prefix.compile("cc", "signals.c", &["-O2"]);
    let read = |output: std::process::Output| {
        let said = text(&output);
        assert!(output.status.success(), "{:?} {said}", output.status);
        let handled: u64 = of(&said, "handled")[0].parse().unwrap();
        assert!(handled > 100, "{said}");
        assert_eq!(of(&said, "failed"), ["0"], "{said}");
        // One that comes while counters are opened and closed gets an error, and nothing else happens.
        assert_eq!(of(&said, "other than busy"), ["0"], "{said}");
    };
    read(native(&program, &["wall-time"]));
    if let Some(output) = inside(&program, &["instructions:u"]) {
        read(output);
    }
}

/// Who loads the library as ctypes does may unload it: what it has registered stays callable.
#[test]
fn the_library_can_be_unloaded() {
    let Some(prefix) = Prefix::versioned() else {
        return;
    };
    let program = prefix.compile("cc", "unload.c", &["-O1", "-ldl"]);
    let library = prefix.path("lib/libtruecount.so").display().to_string();
    let output = native(&program, &[&library]);
    assert!(output.status.success(), "{:?}", output.status);
    assert_eq!(text(&output), "unloaded and forked\n".repeat(3));
}

#[test]
fn wrong_use_is_clean_under_the_address_sanitizer() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let flags = [
        "-O1",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ];
    match prefix.built("cc", "misuse.c", &flags) {
        Ok(program) => {
            let file = prefix.path("regions").display().to_string();
            let output = native(&program, &["wall-time", &file]);
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{}\n{stderr}", text(&output));
            assert!(stderr.is_empty(), "{stderr}");
        }
        Err(said) => truecount_testing::skip!("sanitizers", "cc: {said}"),
    }
}

#[test]
fn groups_and_regions_from_c() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let program = prefix.compile("cc", "regions.c", &["-O2"]);
    let file = prefix.path("profile");
    let file = file.to_str().unwrap();
    let Some(output) = inside(&program, &["{instructions:u}", file, "instructions:u"]) else {
        return;
    };
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 10, "{said}");
    assert!(lines.iter().all(|line| *line == lines[0]), "{said}");
    assert!(
        lines[0].starts_with("1 instructions:u ") && lines[0].ends_with(" 1"),
        "{said}"
    );
    let profile = std::fs::read(prefix.path("profile.mm_profdata")).unwrap();
    assert!(profile.windows(5).any(|bytes| bytes == b"inner"));
    assert!(profile.windows(6).any(|bytes| bytes == b"thread"));
}

#[test]
fn cpp_counts_the_same() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    if !truecount_testing::compiler(std::process::Command::new("c++").arg("--version").output()) {
        return;
    }
    for (compiler, flags) in [
        ("c++", &["-O0", "-std=c++11"][..]),
        ("c++", &["-O1", "-std=c++14"]),
        ("c++", &["-O2", "-std=c++17"]),
        ("c++", &["-Os", "-std=c++11"]),
        ("clang++", &["-O2", "-std=c++17"]),
    ] {
        let program = match prefix.built(compiler, "raii.cpp", flags) {
            Err(said) if compiler == "clang++" => {
                truecount_testing::skip!("clang", "clang++: {said}");
                continue;
            }
            built => built.unwrap_or_else(|said| panic!("{compiler} {flags:?}: {said}")),
        };
        let file = prefix.path("moved").display().to_string();
        let Some(output) = inside(&program, &["instructions:u", &file]) else {
            return;
        };
        let said = text(&output);
        assert!(output.status.success(), "{flags:?} {said}");
        assert!(said.contains("instructions:u virtual 1"), "{said}");
        assert!(
            ["thread: 1", "event: 1", "NUL: 1", "thrown: 1"]
                .iter()
                .all(|line| said.contains(line)),
            "{said}"
        );
        // TRUECOUNT_CLOSED, whichever way.
        assert_eq!(of(&said, "moved from:"), ["5555"], "{flags:?} {said}");
        assert_eq!(of(&said, "destroyed:"), ["5"], "{flags:?} {said}");
        assert_eq!(of(&said, "several:"), ["4-15"], "{flags:?} {said}");
        assert_eq!(of(&said, "groups:"), ["1055"], "{flags:?} {said}");
        assert_eq!(of(&said, "recorders:"), ["-15"], "{flags:?} {said}");
        assert!(constant(&said) < 300, "{flags:?} {said}");
        // A region, calls of what does nothing, two reads: whatever code the compiler makes of each.
        assert_eq!(of(&said, "empty"), ["0 0 0 0 0"], "{flags:?} {said}");
    }
}

/// Both the compilers and both ways to link; what pkg-config says is what works.
#[test]
fn pkg_config_says_how_to_link() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let pc = std::fs::read_to_string(prefix.path("lib/pkgconfig/truecount.pc")).unwrap();
    let root = prefix.directory.path().display().to_string();
    assert!(
        pc.contains(&format!("prefix={root}\n")) && pc.contains("Libs: -L${libdir} -ltruecount\n"),
        "{pc}"
    );
    let asked = std::process::Command::new("pkg-config")
        .args(["--cflags", "--libs", "truecount"])
        .env("PKG_CONFIG_PATH", prefix.path("lib/pkgconfig"))
        .output();
    match asked {
        Ok(output) => {
            let said = text(&output);
            assert!(output.status.success(), "{output:?}");
            assert!(
                said.contains("-ltruecount") && said.contains(&root),
                "{said}"
            );
        }
        Err(error) => truecount_testing::skip!("pkg-config", "pkg-config: {error}"),
    }
}

/// A program without any shared library, linked by what `pkg-config --static` says.
#[test]
fn a_program_links_statically() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let pc = std::fs::read_to_string(prefix.path("lib/pkgconfig/truecount.pc")).unwrap();
    let needs = of(&pc, "Libs.private:")[0].split_whitespace();
    let program = prefix.path("static");
    let output = std::process::Command::new("cc")
        .args(["-O1", "-static", "-o"])
        .arg(&program)
        .arg(format!("-I{}", prefix.path("include").display()))
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/programs/count.c"
        ))
        .arg(prefix.path("lib/libtruecount.a"))
        .args(needs)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && said.contains("cannot find -lc") {
        truecount_testing::skip!("compilers", "no static C library: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    if let Some(output) = inside(&program, &[]) {
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(of(&text(&output), "empty"), ["0"]);
    }
}

/// For targets without shared libraries.
#[test]
fn a_static_install_needs_no_shared_library() {
    let Some(archive) = support::library("libtruecount_c.a") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("from");
    std::fs::create_dir(&from).unwrap();
    std::os::unix::fs::symlink(archive, from.join("libtruecount_c.a")).unwrap();
    let output = std::process::Command::new("sh")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/install.sh"))
        .args(["--static", "--prefix"])
        .arg(directory.path())
        .arg("--from")
        .arg(&from)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let lib = directory.path().join("lib");
    assert!(lib.join("libtruecount.a").exists() && !lib.join("libtruecount.so").exists());
    assert!(lib.join("pkgconfig/truecount.pc").exists());
}

/// A read is at most eight instructions, from the function's entry to its return.
#[cfg(target_arch = "x86_64")]
#[test]
fn an_inline_read_is_eight_instructions() {
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};
    use object::{Object as _, ObjectSection as _};
    let Some(prefix) = Prefix::install() else {
        return;
    };
    for compiler in ["cc", "clang"] {
        let object = match prefix.built(
            compiler,
            "probe.c",
            &[
                "-O2",
                "-c",
                "-fcf-protection=none",
                if compiler == "cc" {
                    "-std=gnu99"
                } else {
                    "-std=gnu11"
                },
            ],
        ) {
            Ok(object) => object,
            Err(said) if compiler == "clang" => {
                truecount_testing::skip!("clang", "clang: {said}");
                continue;
            }
            Err(said) => panic!("{said}"),
        };
        let bytes = std::fs::read(object).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let code = file.section_by_name(".text").unwrap();
        let decoder = Decoder::with_ip(64, code.data().unwrap(), 0, DecoderOptions::NONE);
        let path: Vec<_> = decoder
            .into_iter()
            .take_while(|i| i.mnemonic() != Mnemonic::Ret)
            .collect();
        let listing: Vec<String> = path.iter().map(ToString::to_string).collect();
        assert!(
            path.iter().any(|i| i.mnemonic() == Mnemonic::Rdpmc),
            "{listing:?}"
        );
        assert!(path.len() <= 8, "{compiler}: {listing:?}");
    }
}

/// On aarch64 the read is in two parts: up to the call of what the library has for the register (`mrs`, `ret`), which make
/// eight. Compiled by clang, which has that target wherever it is.
#[test]
fn an_inline_read_for_arm_is_eight_instructions() {
    use object::{Object as _, ObjectSection as _};
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let target = [
        "-O2",
        "-c",
        "--target=aarch64-linux-gnu",
        "-ffreestanding",
        "-nostdlibinc",
    ];
    let object = match prefix.built("clang", "probe.c", &target) {
        Ok(object) => object,
        Err(said) => {
            truecount_testing::skip!("clang", "clang: {said}");
            return;
        }
    };
    let bytes = std::fs::read(object).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let code = file.section_by_name(".text").unwrap();
    let words: Vec<u32> = code
        .data()
        .unwrap()
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect();
    // ldp of two registers without a change of the base; blr.
    let start = words.iter().position(|word| word >> 22 == 0x2a5);
    let end = words
        .iter()
        .position(|word| word & 0xffff_fc1f == 0xd63f_0000);
    let (Some(start), Some(end)) = (start, end) else {
        panic!("{words:08x?}");
    };
    assert!(start < end && end - start + 1 + 2 <= 8, "{words:08x?}");
}

/// What the README and the pages show compiles and runs.
#[test]
fn the_pages_examples_work() {
    let Some(prefix) = Prefix::install() else {
        return;
    };
    let pages = [
        ("readme.c", "cc", include_str!("../README.md")),
        ("page.c", "cc", include_str!("../../../docs/languages/c.md")),
        (
            "page.cpp",
            "c++",
            include_str!("../../../docs/languages/cpp.md"),
        ),
    ];
    for (name, compiler, page) in pages {
        let (_, kind) = name.split_once('.').unwrap();
        let after = page.split_once(&format!("```{kind}\n")).expect(name).1;
        let code = after.split_once("```").expect(name).0;
        let source = prefix.path(name);
        std::fs::write(&source, code).unwrap();
        let program = match prefix.built(compiler, source.to_str().unwrap(), &["-O2"]) {
            Ok(program) => program,
            Err(said) if said.contains("No such file or directory (os error 2)") => {
                truecount_testing::skip!("compilers", "{compiler}: {said}");
                continue;
            }
            Err(said) => panic!("{name}: {said}"),
        };
        if let Some(output) = inside(&program, &[]) {
            let said = text(&output);
            assert!(output.status.success(), "{name}: {said}");
            let (hello, count) = said.split_once('\n').expect(name);
            let count = count.trim().strip_suffix(" instructions").expect(&said);
            let count: u64 = count.parse().expect(&said);
            assert!(hello == "hello" && count > 100, "{name}: {said}");
        }
    }
}
