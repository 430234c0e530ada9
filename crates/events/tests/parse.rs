//! The grammar: what parses, what does not, and that nothing panics.

#![allow(clippy::unwrap_used, reason = "tests")]

mod tree;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use truecount_events::{ErrorKind, Head, Machine, Span, parse, parse_terms, resolve};

#[test]
fn canonical_spelling() {
    for (given, canonical) in [
        ("instructions", "instructions"),
        (" instructions:u , cycles ", "instructions:u,cycles"),
        ("r1CB:u", "r01cb:u"),
        ("rFFFFFFFFFFFFFFFF", "rffffffffffffffff"),
        ("ref-cycles", "ref-cycles"),
        ("{a,b}:u", "{a,b}:u"),
        ("{ a , b:k }", "{a,b:k}"),
        ("cpu/event=0x3c,umask=0/", "cpu/event=0x3c,umask=0x0/"),
        ("cpu/event=60/ppu", "cpu/event=0x3c/upp"),
        ("cpu/event=60/:u", "cpu/event=0x3c/u"),
        ("cpu//", "cpu//"),
        ("cpu/name='a b, c'/", "cpu/name='a b, c'/"),
        ("sched:sched_switch", "sched:sched_switch"),
        ("sched:sched_switch:k", "sched:sched_switch:k"),
        ("syscalls:exit", "syscalls:exit"),
    ] {
        let tree = parse(given).unwrap_or_else(|e| panic!("{given}: {e}"));
        assert_eq!(tree.to_string(), canonical, "{given}");
        assert_eq!(
            parse(canonical).unwrap().to_string(),
            canonical,
            "{canonical}"
        );
    }
}

#[test]
fn what_is_refused_and_where() {
    for (given, start, what) in [
        ("", 0, "empty"),
        ("  ", 0, "empty"),
        (",", 0, "expected an event name, found ','"),
        ("a,", 2, "the expression ends"),
        ("a b", 2, "expected a comma or the end"),
        ("{a", 2, "expected a comma or the closing brace"),
        ("{}", 1, "expected an event name"),
        ("{a,{b}}", 3, "expected an event name"),
        ("a:", 2, "modifier letter"),
        ("a:z", 2, "unknown modifier 'z'"),
        ("a:pppp", 5, "at most three p"),
        ("cpu/a", 5, "closing slash"),
        ("cpu/a=/", 6, "expected a value"),
        ("cpu/a=0x/", 6, "not a number"),
        ("cpu/a=18446744073709551616/", 6, "not a number"),
        ("cpu/a='b", 8, "closing quote"),
        ("cpu/a,/", 6, "a term"),
        ("r11112222333344445", 0, "not a number"),
        ("größe", 2, "expected a comma or the end"),
        ("{a}:é", 4, "unknown modifier 'é'"),
    ] {
        let error = parse(given).unwrap_err();
        assert_eq!(error.span.start, start, "{given}: {error}");
        assert!(error.to_string().contains(what), "{given}: {error}");
    }
    assert_eq!(
        parse(&"a,".repeat(40_000)).unwrap_err().kind,
        ErrorKind::TooLong
    );
}

#[test]
fn the_pointer_marks_the_place() {
    let error = parse("a,b:uz").unwrap_err();
    assert_eq!(error.pointer(), "a,b:uz\n     ^");
    assert_eq!((error.column(), error.span), (6, Span::new(5, 6)));
}

#[test]
fn raw_numbers_and_names_that_look_like_them() {
    let head = |text: &str| parse(text).unwrap().groups[0].events[0].head.clone();
    assert_eq!(head("r01cb"), Head::Raw(0x01cb));
    assert_eq!(head("r"), Head::Name("r".to_owned()));
    assert_eq!(head("ref"), Head::Raw(0xef));
    assert_eq!(head("ref-cycles"), Head::Name("ref-cycles".to_owned()));
}

/// Text made of the grammar's own pieces gets far deeper than random characters.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("instructions"),
        Just("cycles"),
        Just("cpu"),
        Just("r01cb"),
        Just("event=0x3c"),
        Just("umask"),
        Just("edge"),
        Just("="),
        Just("/"),
        Just(","),
        Just(":"),
        Just("u"),
        Just("kpp"),
        Just("D"),
        Just("{"),
        Just("}"),
        Just("?"),
        Just("'"),
        Just("0x"),
        Just("99999999999999999999"),
        Just(" "),
        Just("sched:sched_switch"),
        Just("mem-loads"),
        Just("ldlat=3"),
        Just("name="),
        Just("period=1"),
        Just("imc"),
        Just("\u{e9}"),
        Just("L1-dcache-"),
        Just("misses"),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|v| v.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_text_never_panics(text in "\\PC{0,80}") {
        if let Err(error) = resolve(&text, &Machine::unknown()) {
            let _ = (error.to_string(), error.pointer());
        }
        let _ = parse_terms(&text);
    }

    #[test]
    fn what_parses_prints_to_something_that_parses_to_the_same(text in pieces()) {
        match parse(&text) {
            Ok(tree) => {
                let canonical = tree.to_string();
                prop_assert_eq!(parse(&canonical).unwrap().to_string(), canonical);
            }
            Err(error) => {
                prop_assert!(error.span.start <= error.span.end && error.span.end <= text.len());
                prop_assert!(text.is_char_boundary(error.span.start) && text.is_char_boundary(error.span.end));
            }
        }
    }
}

#[test]
fn pieces_resolve_or_fail_cleanly_on_a_machine_with_pmus() {
    let tree = tree::skylake();
    let machine = tree.machine();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..400 {
        let text = pieces().new_tree(&mut runner).unwrap().current();
        if let Err(error) = resolve(&text, &machine) {
            assert!(!error.to_string().contains('\n'), "{error}");
            assert!(error.span.end <= error.expression.len(), "{error:?}");
        }
    }
}
