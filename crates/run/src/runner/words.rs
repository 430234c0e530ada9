//! Splits a command line in one string into words, by the quoting rules of POSIX sh (XCU 2.2),
//! without expansions: what would need a shell is refused and the option that gives one is named.

use std::ffi::OsStr;

use crate::error::{Error, ErrorKind};

/// Splits `line` into words.
///
/// # Errors
/// An unclosed quote, an empty line, or unquoted characters that only a shell understands.
pub fn split(line: &str) -> Result<Vec<String>, Error> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err(unclosed(line, '\'')),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                            Some('\n') => {}
                            Some(c) => {
                                word.push('\\');
                                word.push(c);
                            }
                            None => return Err(unclosed(line, '"')),
                        },
                        Some(c @ ('$' | '`')) => return Err(needs_shell(line, c)),
                        Some(c) => word.push(c),
                        None => return Err(unclosed(line, '"')),
                    }
                }
            }
            '\\' => match chars.next() {
                Some('\n') => {}
                Some(c) => word.get_or_insert_default().push(c),
                None => word.get_or_insert_default().push('\\'),
            },
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '*' | '?' => {
                return Err(needs_shell(line, c));
            }
            '#' | '~' if word.is_none() => return Err(needs_shell(line, c)),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.is_empty() {
        return Err(Error::new(ErrorKind::Usage, "the command is empty"));
    }
    Ok(words)
}

fn needs_shell(line: &str, c: char) -> Error {
    Error::new(
        ErrorKind::Usage,
        format!("the command `{line}` has an unquoted `{c}`, which only a shell understands"),
    )
    .hint("add --shell to run it by one, or quote the character")
}

/// A command as a person would type it: sh, and [`split`], take it apart into these words.
pub fn command_line(words: &[impl AsRef<OsStr>]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "%+,-./:@_".contains(c);
    let quoted = |word: &OsStr| {
        let word = word.to_string_lossy();
        // Elsewhere than in an option it may make an assignment.
        let option = word.starts_with('-');
        if !word.is_empty() && word.chars().all(|c| plain(c) || option && c == '=') {
            word.into_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    let words: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
    words.join(" ")
}

fn unclosed(line: &str, quote: char) -> Error {
    Error::new(
        ErrorKind::Usage,
        format!("the command `{line}` has an unclosed {quote}"),
    )
}

#[cfg(test)]
mod tests {
    use super::{ErrorKind, command_line, split};

    #[test]
    fn a_joined_line_has_the_same_words() {
        for words in [
            &["ls", "-l", "/a b"][..],
            &["python3", "-c", "d={'a': 1}; print(d)"],
            &["x", "", "it's", "\\", "$HOME", "a\nb", "é", "~", "=x"],
        ] {
            let words: Vec<String> = words.iter().map(|&word| word.into()).collect();
            assert_eq!(split(&command_line(&words)).unwrap(), words);
        }
        let words = ["./a-b_c", "--x=1,2"].map(String::from);
        assert_eq!(command_line(&words), "./a-b_c --x=1,2");
    }

    #[test]
    fn words_are_those_of_sh() {
        let cases: &[(&str, &[&str])] = &[
            ("true", &["true"]),
            ("  a  b\tc ", &["a", "b", "c"]),
            ("a 'b c' \"d e\"", &["a", "b c", "d e"]),
            ("a''b", &["ab"]),
            ("x ''", &["x", ""]),
            (r#"a "\$x\\" \; b\ c"#, &["a", r"$x\", ";", "b c"]),
            (r#""\n""#, &[r"\n"]),
            ("a#b c~d", &["a#b", "c~d"]),
            ("'a|b;c$d'", &["a|b;c$d"]),
        ];
        for (line, want) in cases {
            assert_eq!(&split(line).unwrap(), want, "{line}");
        }
    }

    #[test]
    fn what_needs_a_shell_is_refused_and_the_option_named() {
        for line in [
            "a | b",
            "a > f",
            "echo $HOME",
            "ls *",
            "a; b",
            "\"$x\"",
            "~/a",
            "# a",
        ] {
            let failure = split(line).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::Usage, "{line}");
            assert!(failure.to_string().contains("--shell"), "{line}");
        }
        assert!(split("'a").unwrap_err().to_string().contains("unclosed"));
        assert!(split("\"a\\").unwrap_err().to_string().contains("unclosed"));
        assert!(split("  ").unwrap_err().to_string().contains("empty"));
    }
}
