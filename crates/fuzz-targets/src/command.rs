//! Parsers of what users write on the command line, and of documents that commands read back.

use truecount_cli::parsers;
use truecount_events::Machine;
use truecount_lab::discovery::{self, Layout, Plan, Umasks};
use truecount_lab::exact::Target;
use truecount_model::SourceKind;
use truecount_perf::EventAttr;
use truecount_run::compare::{Asked, Judge};
use truecount_run::exactness::Verdicts;
use truecount_run::rounds::{Written, percent};
use truecount_run::{factor, runner};

/// Words of a command line in one string: what is split is the same again after quoting.
pub(crate) fn shell_words(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(words) = runner::split(&text) {
        let again = runner::split(&runner::command_line(&words));
        assert_eq!(again.expect("quoted words"), words, "{text:?}");
    }
}

/// Times, CPUs, numbers, shares, factors, limits, and the ranges and lists of parameters.
pub(crate) fn arguments(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = parsers::argument(text);
    if let Ok(share) = percent(text) {
        assert!(share.is_finite(), "{text}");
    }
    let _ = (factor::parse_list(text), factor::parse_remedies(text));
    let _ = Target::parse(text);
    let asked = [text.to_owned()];
    let limits = Judge::new(Asked {
        gates: &asked,
        floors: &asked,
        named: vec![text],
        ..Asked::default()
    });
    let parameter = ["n".to_owned(), text.to_owned()];
    for (ranges, lists) in [(parameter.as_slice(), &[][..]), (&[], &parameter)] {
        let _ = limits.is_ok();
        let _ = Written {
            // Jobs are made, nothing is started.
            lines: &["true {n}".to_owned()],
            ranges,
            lists,
            ..Written::default()
        }
        .jobs();
    }
}

/// Whole command lines: a shell's words for clap and what is behind it.
pub(crate) fn command_line(data: &[u8]) {
    if let Ok(words) = runner::split(&String::from_utf8_lossy(data)) {
        let _ = parsers::command_line(&words);
    }
}

/// Results that are read back: of `bench` (baselines) and of `latency`.
pub(crate) fn documents(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = parsers::baseline(&text) || parsers::latency_result(&text);
}

/// What `discover --resume` reads, and what it makes of it.
pub(crate) fn scan_state(data: &[u8]) {
    let Ok(state) = discovery::kept_state(&String::from_utf8_lossy(data)) else {
        return;
    };
    let plan = Plan {
        codes: vec![0xc0, 0xc4],
        layout: Layout::Intel,
        umasks: Umasks::default(),
        runs: 3,
        raw: EventAttr::new(4, 0),
        filter: "u".to_owned(),
        references: Vec::new(),
        known: Vec::new(),
    };
    let _ = discovery::outcome(&plan, &state);
    let _ = (state.tried(), state.at_once(), state.counting_codes());
}

/// The machine's known deviations (`exactness`), and how events find theirs.
pub(crate) fn verdicts(data: &[u8]) {
    if let Some(known) = Verdicts::parse(&String::from_utf8_lossy(data)) {
        let machine = Machine::at(std::path::Path::new("/nonexistent"));
        let _ = known.deviation("instructions:u", SourceKind::Hardware, &machine);
    }
}

/// Blocks for `latency`: addresses, symbols of a program, ends.
pub(crate) fn block_specs(data: &[u8]) {
    let Ok(spec) = std::str::from_utf8(data) else {
        return;
    };
    let program = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/symbols/called"
    );
    if let Ok(at) = truecount_run::latency::parse(spec, std::path::Path::new(program)) {
        let _ = truecount_run::latency::loads(std::path::Path::new(program), &at);
    }
}
