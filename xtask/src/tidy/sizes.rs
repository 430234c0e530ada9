//! Files and functions that are too long to be one idea.
//!
//! A file counts without its unit tests (items under `#[cfg(test)]`); files of tests, benches and examples count whole.
//! A function counts from the line with its `fn` to that with its closing brace, tests included.

use super::Finding;
use super::source::Source;

const MAX_FILE: usize = 500;
const MAX_FUNCTION: usize = 120;

/// What is too long in a file.
pub fn check(source: &Source<'_>) -> Vec<Finding> {
    if source
        .lines
        .iter()
        .take(5)
        .any(|line| line.contains("@generated"))
    {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let lines = match source.is_test_file() {
        true => source.lines.len(),
        false => source.product_lines().count(),
    };
    if lines > MAX_FILE {
        let message = format!("{lines} lines; a file is one idea, at most {MAX_FILE} lines");
        findings.push(Finding::new(source.path, 0, message));
    }
    for (line, name, length) in functions(source).into_iter().filter(|f| f.2 > MAX_FUNCTION) {
        let message = format!("{name}: {length} lines; a function has at most {MAX_FUNCTION}");
        findings.push(Finding::new(source.path, line, message));
    }
    findings
}

/// Functions with a body: line, name, and lines from `fn` to the closing brace.
fn functions(source: &Source<'_>) -> Vec<(usize, String, usize)> {
    let mut found = Vec::new();
    // Functions that are open: the braces around their body, line and name.
    let mut open: Vec<(usize, usize, String)> = Vec::new();
    // One whose body has not begun, with the brackets open in its head.
    let mut head: Option<(usize, String, usize)> = None;
    let mut depth = 0usize;
    for (line, code) in source.all_lines() {
        let mut rest = code;
        let mut after_fn = false;
        while let Some(c) = rest.chars().next() {
            let word: usize = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .map(char::len_utf8)
                .sum();
            if word > 0 {
                let (name, tail) = rest.split_at(word);
                if after_fn {
                    head = Some((line, name.to_owned(), 0));
                }
                after_fn = name == "fn";
                rest = tail;
                continue;
            }
            if !c.is_whitespace() {
                after_fn = false;
            }
            match (c, &mut head) {
                ('(' | '[', Some(head)) => head.2 += 1,
                (')' | ']', Some(head)) => head.2 = head.2.saturating_sub(1),
                (';', Some((_, _, 0))) => head = None,
                ('{', _) => {
                    if let Some((line, name, _)) = head.take_if(|head| head.2 == 0) {
                        open.push((depth, line, name));
                    }
                    depth += 1;
                }
                ('}', _) => {
                    depth = depth.saturating_sub(1);
                    if let Some((_, begin, name)) = open.pop_if(|open| open.0 == depth) {
                        found.push((begin, name, line - begin + 1));
                    }
                }
                _ => {}
            }
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        check(&Source::new(path, text))
            .into_iter()
            .map(|f| (f.line, f.message))
            .collect()
    }

    #[test]
    fn a_long_file_is_found_and_unit_tests_do_not_count() {
        let long = "//\n".repeat(MAX_FILE);
        assert_eq!(found("crates/a/src/x.rs", &long), []);
        assert_eq!(found("crates/a/src/x.rs", &format!("{long}//\n")).len(), 1);
        assert_eq!(
            found("crates/a/tests/x.rs", &format!("{long}//\n")).len(),
            1
        );
        let tests = format!("{long}#[cfg(test)]\nmod tests {{\n    fn t() {{}}\n}}\n");
        assert_eq!(found("crates/a/src/x.rs", &tests), []);
        assert_eq!(found("crates/a/tests/x.rs", &tests).len(), 1);
        assert_eq!(
            found("crates/a/src/x.rs", &format!("// @generated\n{long}")),
            []
        );
    }

    #[test]
    fn lines_of_functions_are_counted() {
        let text = "\
fn short() {}
trait T { fn no_body(&self, x: [u8; 3]); fn body(&self) {
    let c = |x: &str| { \"}\" };
} }
fn generic<T: Fn() -> [u8; 2]>(
    f: T,
) -> impl Fn() {
    fn inner() {
        x
    }
}
const F: fn() = short;
";
        let source = Source::new("x.rs", text);
        let all: Vec<(usize, String, usize)> = functions(&source);
        let expected = [
            (1, "short", 1),
            (2, "body", 3),
            (8, "inner", 3),
            (5, "generic", 7),
        ];
        assert_eq!(
            all,
            expected.map(|(line, name, length)| (line, name.to_owned(), length))
        );
    }

    #[test]
    fn a_long_function_is_found_in_tests_too() {
        let body = |lines: usize| format!("fn f() {{\n{}}}\n", "    x;\n".repeat(lines));
        assert_eq!(found("crates/a/src/x.rs", &body(MAX_FUNCTION - 2)), []);
        let long = body(MAX_FUNCTION - 1);
        assert_eq!(found("crates/a/src/x.rs", &long)[0].0, 1);
        assert_eq!(found("crates/a/tests/x.rs", &long).len(), 1);
    }
}
