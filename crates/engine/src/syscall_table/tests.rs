use super::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;

#[test]
fn a_number_has_one_row_and_rows_are_in_order() {
    for pair in TABLE.windows(2) {
        assert!(pair[0].number < pair[1].number, "{pair:?}");
    }
    assert!(TABLE.iter().all(|call| call.number < END));
    for call in TABLE {
        assert_eq!(answer(call.number), call.answer, "{}", call.name);
    }
    assert_eq!(answer(END), Answer::Forward);
    assert_eq!(
        answer(END - 1),
        Answer::Kernel,
        "unknown: the kernel says ENOSYS"
    );
}

/// The numbers are the kernel's: those of the header that the C library is built with.
#[test]
fn numbers_are_those_of_the_kernels_header() {
    let paths = [
        "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
        "/usr/include/asm/unistd_64.h",
    ];
    let Some(text) = paths
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok())
    else {
        truecount_testing::skip!("cc", "no asm/unistd_64.h");
        return;
    };
    let mut known = 0;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some("#define"), Some(name), Some(number)) =
            (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let (Some(name), Ok(number)) = (name.strip_prefix("__NR_"), number.parse::<u64>()) else {
            continue;
        };
        let row = TABLE.iter().find(|call| call.number == number);
        // A newer kernel may have calls that the table does not know.
        if let Some(row) = row {
            assert_eq!(row.name, name.to_uppercase());
            known += 1;
        }
    }
    assert!(known > 300, "{known} of the header's calls");
}

/// The table of `docs/virtual-pmu.md`: calls that are not simply the kernel's, by who answers.
fn documented() -> String {
    let mut groups: BTreeMap<(&str, Class), Vec<String>> = BTreeMap::new();
    for call in TABLE.iter().filter(|call| call.answer != Answer::Kernel) {
        let group = groups
            .entry((in_words(call.answer), call.class))
            .or_default();
        group.push(format!("`{}`", call.name.to_lowercase()));
    }
    let mut text = String::from("| calls | about | answered by |\n|---|---|---|\n");
    for ((who, class), calls) in groups {
        let class = format!("{class:?}").to_lowercase();
        let _ = writeln!(text, "| {} | {class} | {who} |", calls.join(" "));
    }
    let _ = writeln!(text, "| all others | | {} |", in_words(Answer::Kernel));
    text
}

#[test]
fn the_documentation_has_this_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/virtual-pmu.md");
    let text = std::fs::read_to_string(path).expect("the documentation is in the tree");
    let expected = documented();
    assert!(
        text.contains(&expected),
        "docs/virtual-pmu.md, \"System calls\", must have this table:\n{expected}"
    );
}
