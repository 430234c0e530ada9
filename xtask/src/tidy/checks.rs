//! The checks of single files.

use super::Finding;
use super::source::{Source, words_of};

/// What must not appear anywhere: paths of one machine. Put together, so that this file passes.
const WORDS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/tmp/br", "ief"),
    concat!("/ro", "ot/"),
    concat!("/home/us", "er/"),
];

/// Whether a macro of this name is called in the line.
pub(super) fn calls_macro(code: &str, names: &[&str]) -> Option<String> {
    words_of(code).find_map(|(at, word)| {
        let after = code.get(at + word.len()..)?.trim_start();
        let called = after.starts_with('!') && !after.starts_with("!=");
        (called && names.contains(&word)).then(|| word.to_owned())
    })
}

/// All checks of a Rust file.
pub fn rust(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(assembly(source));
    findings.extend(system_calls(source));
    findings.extend(unfinished(source));
    findings.extend(raw_numbers(source));
    findings.extend(unsafe_comments(source));
    findings
}

/// Words that must not appear.
pub fn words(path: &str, text: &str) -> Vec<Finding> {
    let numbered = text.lines().enumerate();
    let found = numbered.flat_map(|(i, line)| {
        WORDS
            .iter()
            .filter(move |word| line.contains(**word))
            .map(move |word| Finding::new(path, i + 1, format!("a path of one machine: {word}")))
    });
    found.collect()
}

/// Tests may hold assembly: loops of a known number of instructions can be written in nothing else.
fn assembly(source: &Source<'_>) -> Vec<Finding> {
    let home = source.path.starts_with("crates/count/src/arch/")
        || source.path.starts_with("crates/count/src/arch.rs")
        || source.path.starts_with("crates/lab/src/loops/")
        || source.path.starts_with("crates/engine/");
    if home {
        return Vec::new();
    }
    let found = source.product_lines().filter_map(|(line, code)| {
        let name = calls_macro(code, &["asm", "global_asm", "naked_asm"])?;
        let message =
            format!("{name}!: assembly lives in crates/count/src/arch, crates/engine and crates/lab/src/loops only");
        Some(Finding::new(source.path, line, message))
    });
    found.collect()
}

fn system_calls(source: &Source<'_>) -> Vec<Finding> {
    if source.path.starts_with("crates/perf/") {
        return Vec::new();
    }
    let found = source.all_lines().filter_map(|(line, code)| {
        let called = |at: usize, word: &str| {
            code.get(at + word.len()..)
                .is_some_and(|after| after.trim_start().starts_with('('))
        };
        let (_, word) = words_of(code).find(|&(at, word)| match word {
            "SYS_perf_event_open" | "__NR_perf_event_open" => true,
            // Implementing the kernel's trait (a fake) is not a call.
            "perf_event_open" => {
                called(at, word) && !code.get(..at).is_some_and(|before| before.ends_with("fn "))
            }
            // The ioctl functions of perf_event_open_sys.
            "ioctls" => code.get(..at).is_some_and(|before| before.ends_with("::")),
            _ => false,
        })?;
        let message = format!("{word}: only crates/perf makes perf system calls");
        Some(Finding::new(source.path, line, message))
    });
    found.collect()
}

fn unfinished(source: &Source<'_>) -> Vec<Finding> {
    let found = source.all_lines().filter_map(|(line, code)| {
        let name = calls_macro(code, &["todo", "unimplemented"])?;
        Some(Finding::new(
            source.path,
            line,
            format!("{name}!: nothing is left unfinished"),
        ))
    });
    found.collect()
}

/// System calls by name: a number says nothing to whoever reads it.
fn raw_numbers(source: &Source<'_>) -> Vec<Finding> {
    let lines: Vec<&str> = source.code.iter().map(String::as_str).collect();
    let all = lines.join("\n");
    let found = ["sys::call(", "libc::syscall(", "syscall6("]
        .iter()
        .flat_map(|call| {
            all.match_indices(call).filter_map(|(at, call)| {
                let after = all.get(at + call.len()..)?.trim_start();
                let line = all.get(..at)?.matches('\n').count() + 1;
                let digit = after.chars().next().is_some_and(|c| c.is_ascii_digit());
                let message = format!("{call}…): a system call by its number; use its name");
                digit.then(|| Finding::new(source.path, line, message))
            })
        });
    found.collect()
}

/// Every `unsafe` block and implementation needs a `SAFETY:` comment above its statement, or as the first
/// thing in the block.
fn unsafe_comments(source: &Source<'_>) -> Vec<Finding> {
    let found = source.all_lines().filter_map(|(line, code)| {
        let needs = words_of(code).any(|(at, word)| {
            let after = code.get(at + word.len()..).unwrap_or_default().trim_start();
            let on_next = after.is_empty()
                && source
                    .code
                    .get(line)
                    .is_some_and(|next| next.trim_start().starts_with('{'));
            word == "unsafe" && (after.starts_with('{') || after.starts_with("impl") || on_next)
        });
        if !needs || has_safety_comment(source, line) {
            return None;
        }
        Some(Finding::new(
            source.path,
            line,
            "unsafe without a SAFETY: comment",
        ))
    });
    found.collect()
}

fn has_safety_comment(source: &Source<'_>, line: usize) -> bool {
    let text = |line: usize| {
        source
            .lines
            .get(line.wrapping_sub(1))
            .copied()
            .unwrap_or_default()
    };
    if text(line).contains("SAFETY:") || text(line + 1).trim_start().starts_with("// SAFETY:") {
        return true;
    }
    for above in (1..line).rev() {
        let trimmed = text(above).trim();
        if trimmed.contains("SAFETY:") {
            return true;
        }
        let code = source
            .code
            .get(above - 1)
            .map(|code| code.trim())
            .unwrap_or_default();
        let comment =
            trimmed.starts_with("//") || trimmed.starts_with('*') || trimmed.starts_with("/*");
        let attribute = code.starts_with("#[");
        // The statement goes on above, unless that line ended one or opened a block.
        let ended = code.is_empty() || code.ends_with([';', '{', '}']);
        if ended && !comment && !attribute {
            return false;
        }
    }
    false
}

/// Crates that have no `unsafe` say so, so that none comes in unnoticed.
pub fn forbid_unsafe(texts: &[(String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let roots = texts
        .iter()
        .filter(|(path, _)| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs"));
    for (path, text) in roots {
        let Some(directory) = path.rsplit_once("src/").map(|(directory, _)| directory) else {
            continue;
        };
        let forbids = text.contains("forbid(unsafe_code)");
        let uses = texts
            .iter()
            .filter(|(path, _)| {
                path.starts_with(&format!("{directory}src/")) && path.ends_with(".rs")
            })
            .any(|(path, text)| {
                Source::new(path, text)
                    .all_lines()
                    .any(|(_, code)| words_of(code).any(|(_, word)| word == "unsafe"))
            });
        if !forbids && !uses {
            findings.push(Finding::new(
                path,
                0,
                "has no unsafe code: say #![forbid(unsafe_code)]",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str) -> Vec<(usize, String)> {
        rust(&Source::new(path, text))
            .into_iter()
            .map(|f| (f.line, f.message))
            .collect()
    }

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(path, text)
            .into_iter()
            .map(|(line, _)| line)
            .collect()
    }

    #[test]
    fn assembly_stays_at_home() {
        let text = "fn f() {\n    // SAFETY: x\n    unsafe { core::arch::asm!(\"nop\") }\n}\n";
        assert_eq!(lines("crates/perf/src/x.rs", text), [3]);
        assert_eq!(lines("crates/cli/src/x.rs", text), [3]);
        assert_eq!(lines("crates/cli/tests/x.rs", text), [0usize; 0]);
        assert_eq!(lines("crates/count/src/arch/x86_64.rs", text), [0usize; 0]);
        assert_eq!(lines("crates/engine/runtime/entry.rs", text), [0usize; 0]);
        assert_eq!(
            lines(
                "crates/perf/src/x.rs",
                "// asm!(x)\nlet asm = 1; let b = asm != 2;"
            ),
            [0usize; 0]
        );
    }

    #[test]
    fn only_perf_makes_perf_system_calls() {
        let calls = "sys::perf_event_open(a, 0, 0, 0, 0);\nlibc::SYS_perf_event_open;\nsys::ioctls::ENABLE(fd, 0);\nlet ioctls = 3;\nuse perf_event_open_sys::bindings; fn perf_event_open(&self) {}\n/// perf_event_open(2)\nlet x = \"perf_event_open(\";";
        assert_eq!(lines("crates/count/src/x.rs", calls), [1, 2, 3]);
        assert_eq!(lines("crates/perf/src/kernel.rs", calls), [0usize; 0]);
    }

    #[test]
    fn system_calls_have_names() {
        let text = "sys::call(12, []);\nsys::call(\n    3,\n    x);\nsys::call(sys::MMAP, [1]);\nlibc::syscall(186);\n// sys::call(9\n";
        assert_eq!(lines("crates/engine/runtime/x.rs", text), [1, 2, 6]);
    }

    #[test]
    fn nothing_is_unfinished() {
        assert_eq!(
            lines(
                "xtask/src/x.rs",
                "fn f() { todo!() }\nunimplemented!(\"x\");\n// todo!()\n"
            ),
            [1, 2]
        );
    }

    #[test]
    fn unsafe_is_explained() {
        let good = "\
// SAFETY: above
unsafe { a() };
// SAFETY: above the statement
let x =
    unsafe { b() };
let y = unsafe {
    // SAFETY: inside
    c()
};
// SAFETY: shared by the attribute
#[allow(x)]
unsafe impl Send for X {}
/// # Safety
unsafe fn f();
unsafe extern \"C\" { fn g(); }
";
        assert_eq!(check("crates/count/src/x.rs", good), []);
        let bad = "\
// SAFETY: of another statement
let a = 1;
unsafe { a() };
match x {
    A => unsafe { b() },
}
unsafe impl Send for X {}
";
        assert_eq!(lines("crates/count/src/x.rs", bad), [3, 5, 7]);
    }

    #[test]
    fn crates_without_unsafe_forbid_it() {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let texts = [
            file("crates/a/src/lib.rs", "#![forbid(unsafe_code)]"),
            file("crates/b/src/lib.rs", "mod x;"),
            file("crates/b/src/x.rs", "// unsafe only in a comment"),
            file("crates/c/src/lib.rs", "mod x;"),
            file("crates/c/src/x.rs", "unsafe fn f() {}"),
        ];
        let found: Vec<String> = forbid_unsafe(&texts).into_iter().map(|f| f.path).collect();
        assert_eq!(found, ["crates/b/src/lib.rs"]);
    }

    #[test]
    fn paths_of_one_machine_are_found_in_any_file() {
        let text = format!("fine\nsee {}x", WORDS[0]);
        assert_eq!(
            words("README.md", &text)
                .into_iter()
                .map(|f| f.line)
                .collect::<Vec<_>>(),
            [2]
        );
        assert!(words("README.md", "../shared and target/debug").is_empty());
    }
}
