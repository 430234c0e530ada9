//! The header says what the library has: every function, with the same arguments, and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[path = "support/mod.rs"]
mod support;

fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A Rust type of the interface in C's words, for the function `function`.
fn c_type(rust: &str, function: &str) -> String {
    let handle = match function {
        name if name.starts_with("truecount_group_") => "truecount_group",
        name if name.starts_with("truecount_recorder_")
            || name.starts_with("truecount_region_") =>
        {
            "truecount_recorder"
        }
        _ => "truecount_counter",
    };
    match rust {
        "*const c_char" => "const char *".into(),
        "*const Slot" => format!("const {handle} *"),
        "*mut *const Slot" => format!("const {handle} **"),
        "*mut u64" => "uint64_t *".into(),
        "u64" => "uint64_t ".into(),
        "u32" => "uint32_t ".into(),
        "usize" => "size_t ".into(),
        "c_int" => "int ".into(),
        other => panic!("{function}: no word of C for {other}"),
    }
}

/// The functions that the sources export, as prototypes.
fn exported() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in std::fs::read_dir(own("src")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for rest in text.split("#[unsafe(no_mangle)]").skip(1) {
            let signature = spaced(rest.split('{').next().unwrap());
            let (head, tail) = signature.split_once('(').unwrap();
            let name = head.rsplit(' ').next().unwrap();
            let (arguments, result) = tail.rsplit_once(')').unwrap();
            let arguments: Vec<String> = arguments
                .split(',')
                .map(str::trim)
                .filter(|argument| !argument.is_empty())
                .map(|argument| {
                    let (argument, rust) = argument.split_once(": ").unwrap();
                    format!("{}{argument}", c_type(rust, name))
                })
                .collect();
            let arguments = match arguments.as_slice() {
                [] => "void".to_owned(),
                all => all.join(", "),
            };
            let result = c_type(result.trim().trim_start_matches("->").trim(), name);
            found.insert(format!("{result}{name}({arguments});"));
        }
    }
    found
}

#[test]
fn prototypes_are_those_of_the_functions() {
    let header = std::fs::read_to_string(own("include/truecount.h")).unwrap();
    let declared: BTreeSet<String> = header
        .lines()
        .filter(|line| line.ends_with(");") && !line.starts_with([' ', '#', '*']))
        .map(spaced)
        .collect();
    let exported = exported();
    assert!(exported.len() > 20, "{exported:?}");
    assert_eq!(declared, exported);
}

#[test]
fn statuses_have_the_numbers_of_the_header() {
    let header = std::fs::read_to_string(own("include/truecount.h")).unwrap();
    let source = std::fs::read_to_string(own("src/error.rs")).unwrap();
    let list = source.split("pub(crate) enum Status {").nth(1).unwrap();
    let list = list.split('}').next().unwrap();
    let mut seen = 0;
    for line in list.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, number) = line.trim_end_matches(',').split_once(" = ").unwrap();
        let mut upper = String::new();
        for (i, letter) in name.chars().enumerate() {
            if i > 0 && letter.is_uppercase() {
                upper.push('_');
            }
            upper.push(letter.to_ascii_uppercase());
        }
        let wanted = format!("TRUECOUNT_{upper} = {number}");
        assert!(header.contains(&wanted), "{wanted}");
        seen += 1;
    }
    let declared = header
        .lines()
        .filter(|line| line.starts_with("    TRUECOUNT_"));
    assert_eq!(seen, declared.count());
}

/// What the shared library exports: an interface that others are linked to does not shrink by accident.
#[test]
fn the_shared_library_exports_the_interface_and_nothing_else() {
    use object::{Object as _, ObjectSymbol as _};
    let Some(library) = support::library("libtruecount_c.so") else {
        return;
    };
    let bytes = std::fs::read(library).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let symbols: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.is_global())
        .map(|symbol| symbol.name().unwrap().to_owned())
        .filter(|name| !name.starts_with("__") && name != "rust_eh_personality")
        .collect();
    let wanted: BTreeSet<String> = exported()
        .iter()
        .map(|prototype| {
            let head = prototype.split('(').next().unwrap();
            head.rsplit([' ', '*']).next().unwrap().to_owned()
        })
        .collect();
    assert_eq!(symbols, wanted);
}

/// What programs are linked with stays: prototypes, numbers, sizes, and the version of every symbol.
#[test]
fn the_abi_is_what_was_promised() {
    use object::read::elf::ElfFile64;
    let promised = std::fs::read_to_string(own("tests/abi.txt")).unwrap();
    let header = std::fs::read_to_string(own("include/truecount.h")).unwrap();
    let map = std::fs::read_to_string(own("truecount.map")).unwrap();
    let exported = exported();
    let mut version = "";
    let mut versions = std::collections::BTreeMap::new();
    for line in promised.lines().filter(|line| !line.starts_with('#')) {
        if let Some((head, _)) = line.split_once('(')
            && line.ends_with(");")
        {
            assert!(exported.contains(line), "promised, and not there: {line}");
            let name = head.rsplit([' ', '*']).next().unwrap();
            versions.insert(name, version);
        } else if line.starts_with("TRUECOUNT_") && line.contains(" = ") {
            assert!(header.contains(&format!("    {line}")), "{line}");
        } else if line.starts_with("sizeof") {
            let size = size_of::<truecount_c::truecount_counter>();
            assert_eq!(line, format!("sizeof(truecount_counter) = {size}"));
        } else {
            version = line;
        }
    }
    assert_eq!(
        versions.len(),
        exported.len(),
        "a function is not in tests/abi.txt"
    );
    for (name, version) in &versions {
        let node = map.split(&format!("\n{version} {{")).nth(1).unwrap();
        let node = node.split('}').next().unwrap();
        assert!(
            node.contains(&format!(" {name};\n")),
            "{name} is not in {version} of truecount.map"
        );
    }
    let Some(prefix) = support::Prefix::versioned() else {
        return;
    };
    let bytes = std::fs::read(prefix.path("lib/libtruecount.so.0")).unwrap();
    let file = ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
    let (endian, sections) = (file.endian(), file.elf_section_table());
    let table = sections
        .versions(endian, &*bytes)
        .unwrap()
        .expect("no versions");
    let symbols = sections
        .symbols(endian, &*bytes, object::elf::SHT_DYNSYM)
        .unwrap();
    let mut found = 0;
    for (index, symbol) in symbols.enumerate() {
        let name = symbols.symbol_name(endian, symbol).unwrap();
        let Some(wanted) = versions.get(std::str::from_utf8(name).unwrap()) else {
            continue;
        };
        let version = table
            .version(table.version_index(endian, index).index())
            .unwrap()
            .unwrap();
        assert_eq!(std::str::from_utf8(version.name()), Ok(*wanted));
        found += 1;
    }
    assert_eq!(found, versions.len());
}

#[test]
fn the_version_is_the_crates() {
    let header = std::fs::read_to_string(own("include/truecount.h")).unwrap();
    let version = truecount_c::counter::truecount_version();
    assert!(header.contains(&format!("#define TRUECOUNT_VERSION 0x{version:06x}")));
    let install = std::fs::read_to_string(own("install.sh")).unwrap();
    assert!(install.contains(&format!("\nversion={}\n", env!("CARGO_PKG_VERSION"))));
}
