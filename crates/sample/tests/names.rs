//! Names by stretches of code are those that every place by itself has.
#![cfg(all(feature = "symbols", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used)] // helpers of tests

use std::path::{Path, PathBuf};
use std::process::Command;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use truecount_sample::spaces::MappedFile;
use truecount_sample::symbols::{SearchPath, Symbols};

/// Symbols in each other, with the same start, without a size, of data in code, and code that is of none.
const SOURCE: &str = r#"
    .text
    .globl outer
    .type outer, @function
outer:
    nop; nop
    .type inner, @function
inner:
    nop; nop
    .size inner, . - inner
    nop; nop
also:
    ret
    .size outer, . - outer
    .skip 40, 0x90
    .globl alone
    .type alone, @function
    .type shorter, @function
alone:
shorter:
    nop; nop
    .size shorter, 1
    call puts@plt
table:
    .type table, @object
    .long 1, 2
    .size table, 8
    ret
    .size alone, . - alone
    nop; nop; nop
    .section .note.GNU-stack, "", @progbits
"#;

/// The source as a library; `None`: no compiler.
fn library(directory: &Path, name: &str, options: &[&str]) -> Option<PathBuf> {
    let source = directory.join("names.s");
    std::fs::write(&source, SOURCE).unwrap();
    let to = directory.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-nostdlib", "-o"])
        .arg(&to)
        .args(options)
        .arg(&source);
    truecount_testing::compiler(cc.output()).then_some(to)
}

fn mapped(path: &Path) -> MappedFile {
    MappedFile {
        path: path.display().to_string(),
        build_id: Vec::new(),
    }
}

/// Names of every place in the code, and how far each is from its symbol: by us, and by blazesym, asked for each.
fn compared(symbols: &mut Symbols, path: &Path) -> usize {
    let file = mapped(path);
    let found = symbols.find(&file).unwrap();
    let bytes = found.elf.bytes().len() as u64;
    let stubs = found
        .elf
        .section(".plt")
        .map_or(0..0, |(at, code)| at..at + code.len() as u64);
    let symbolizer = Symbolizer::new();
    let source = Source::Elf(Elf::new(path));
    let mut named = 0;
    // (From the end as well: what is known of a stretch may have been learnt at any of its places.)
    for offset in (0..bytes).chain((0..bytes).rev()) {
        if symbols
            .find(&file)
            .unwrap()
            .elf
            .address_of(offset)
            .is_some_and(|at| stubs.contains(&at))
        {
            continue;
        }
        let ours = symbols.locate_once(&file, offset);
        let expected = match symbolizer.symbolize_single(&source, Input::FileOffset(offset)) {
            Ok(Symbolized::Sym(symbol)) => Some((symbol.name.to_string(), symbol.offset as u64)),
            _ => None,
        };
        let own = ours
            .frames
            .last()
            .map(|frame| (frame.function.clone(), ours.offset));
        assert_eq!(own, expected, "{} {offset:#x}", path.display());
        named += usize::from(own.is_some());
    }
    named
}

#[test]
fn every_place_has_the_names_that_it_has_by_itself() {
    let directory = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("names");
    std::fs::create_dir_all(&directory).unwrap();
    let Some(plain) = library(&directory, "plain.so", &[]) else {
        return;
    };
    let all = [
        plain,
        library(&directory, "stripped.so", &["-s"]).unwrap(),
        library(&directory, "debug.so", &["-g"]).unwrap(),
    ];
    let [plain, stripped, debug] = all.map(|path| {
        let mut symbols = Symbols::new(SearchPath::default());
        let named = compared(&mut symbols, &path);
        let file = mapped(&path);
        let alone = symbols.find(&file).unwrap().has_symbols_alone();
        (named, alone)
    });
    assert!(plain.1 && stripped.1 && !debug.1);
    // (Without its table of symbols it has fewer.)
    assert!(
        plain.0 > stripped.0 && stripped.0 > 0,
        "{} {}",
        plain.0,
        stripped.0
    );
    assert_eq!(plain.0, debug.0);
}

/// Runs a tool of the compiler's; a skip where it fails.
fn has(tool: &str, arguments: &[&Path]) -> bool {
    truecount_testing::compiler(Command::new(tool).args(arguments).output())
}

#[test]
fn debug_information_is_found_from_a_link_to_the_file() {
    let directory = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("separate");
    std::fs::create_dir_all(directory.join("links")).unwrap();
    let Some(path) = library(&directory, "separate.so", &["-g"]) else {
        return;
    };
    let debug = directory.join("separate.debug");
    let flag = |text: &'static str| Path::new(text);
    let link = format!("--add-gnu-debuglink={}", debug.display());
    let made = has("objcopy", &[flag("--only-keep-debug"), &path, &debug])
        && has("objcopy", &[flag("--strip-debug"), &path])
        && has("objcopy", &[Path::new(&link), &path]);
    if !made {
        return;
    }
    let symbolic = directory.join("links/separate.so");
    let _ = std::fs::remove_file(&symbolic);
    std::os::unix::fs::symlink(&path, &symbolic).unwrap();
    let lines = |path: &Path| {
        let file = mapped(path);
        let mut symbols = Symbols::new(SearchPath::default());
        let found = symbols.find(&file).unwrap();
        let (at, code) = found.elf.section(".text").unwrap();
        let offset = (0..).find(|offset| found.elf.address_of(*offset) == Some(at));
        let offsets = (offset.unwrap()..).take(code.len());
        let names = offsets.map(|offset| symbols.locate_once(&file, offset));
        let lines = names.filter_map(|names| names.frames.last()?.line);
        lines.collect::<Vec<_>>()
    };
    let all = lines(&path);
    assert!(!all.is_empty());
    assert_eq!(lines(&symbolic), all);
    std::fs::remove_file(&debug).unwrap();
    assert!(lines(&path).is_empty());
}

#[test]
fn debug_information_beside_a_file_is_its_own() {
    let directory = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("beside");
    std::fs::create_dir_all(&directory).unwrap();
    let Some(path) = library(&directory, "beside.so", &[]) else {
        return;
    };
    let file = mapped(&path);
    let alone = || {
        let mut symbols = Symbols::new(SearchPath::default());
        symbols.find(&file).unwrap().has_symbols_alone()
    };
    assert!(alone());
    let package = directory.join("beside.so.dwp");
    std::fs::write(&package, "debug information").unwrap();
    assert!(!alone());
    std::fs::remove_file(&package).unwrap();
    assert!(alone());
}
