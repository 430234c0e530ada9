//! Functions that are chosen by patterns: `*` stands for any text, `?` for one character.

use std::path::Path;

use truecount_sample::spaces::MappedFile;
use truecount_sample::symbols::{SearchPath, Symbols, demangled, functions_of};

/// Whether a text is of a pattern.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut of) = (0, 0);
    // Where the last star was, and how much of the text it had taken.
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(of) {
            Some('*') => {
                star = Some((of, at));
                of += 1;
            }
            Some(wanted) if *wanted == '?' || Some(wanted) == text.get(at) => {
                (at, of) = (at + 1, of + 1);
            }
            _ => match star {
                Some((from, taken)) => {
                    star = Some((from, taken + 1));
                    (at, of) = (taken + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern
        .get(of..)
        .is_some_and(|rest| rest.iter().all(|&c| c == '*'))
}

/// The longest word of a pattern that the mangled names of its functions have in them, too.
fn word(pattern: &str) -> &str {
    // In C++ types of arguments have one letter.
    let name = pattern.split('(').next().unwrap_or("");
    let words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| {
            !matches!(
                *word,
                "std" | "operator" | "anonymous" | "namespace" | "impl"
            )
        })
        .max_by_key(|word| word.len())
        .unwrap_or("")
}

/// Addresses, as the file has them, and names of the functions of `program` whose names are of a pattern.
///
/// # Errors
/// One line: the program cannot be read.
pub fn functions_like(program: &Path, pattern: &str) -> Result<Vec<(u64, String)>, String> {
    let word = word(pattern);
    let candidates = functions_of(program, &|mangled| mangled.contains(word))?;
    let file = MappedFile {
        path: program.to_string_lossy().into_owned(),
        build_id: Vec::new(),
    };
    let mut symbols = Symbols::new(SearchPath::default());
    let mut found: Vec<(u64, String)> = candidates
        .into_iter()
        .filter(|(_, offset, mangled)| {
            let named = |symbols: &mut Symbols| {
                let location = symbols.locate(&file, *offset);
                location
                    .frames
                    .last()
                    .is_some_and(|frame| matches(pattern, &frame.function))
            };
            // Debug information of lines alone has names without their modules.
            matches(pattern, mangled)
                || matches(pattern, &demangled(mangled))
                || named(&mut symbols)
        })
        .map(|(address, _, mangled)| (address, demangled(&mangled)))
        .collect();
    found.dedup_by_key(|(address, _)| *address);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_callgrinds() {
        for (pattern, text, is) in [
            ("main", "main", true),
            ("main", "mains", false),
            ("*::main", "a::main", true),
            ("*::main", "main", false),
            ("*::__mod::*", "a::b::__mod::c", true),
            ("f?o*", "foo(int)", true),
            ("f?o", "fo", false),
            ("**a*b", "xaxbxb", true),
            ("*a*b", "xaxbxc", false),
            ("", "", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), is, "{pattern} {text}");
        }
        assert_eq!(
            word("*::__gungraun_wrapper_mod::*"),
            "__gungraun_wrapper_mod"
        );
        assert_eq!(word("f(unsigned long)"), "f");
        assert_eq!(word("*"), "");
    }

    #[test]
    fn functions_of_this_test_are_found() {
        let own = std::env::current_exe().unwrap();
        let found = functions_like(&own, "*chosen::matches").unwrap();
        assert_eq!(found.len(), 1, "{found:x?}");
        assert!(
            functions_like(&own, "no_such_function_here")
                .unwrap()
                .is_empty()
        );
        assert!(functions_like(Path::new("/nonexistent"), "main").is_err());
    }
}
