//! A Rust file with comments and literals told apart from code, line by line.
//!
//! No parser: only what a lexer knows (The Rust Reference, "Comments" and "Tokens").

/// A file, its lines, and its code with comments and literals blanked out.
pub struct Source<'a> {
    pub path: &'a str,
    pub lines: Vec<&'a str>,
    /// As `lines`, with spaces where comments and the insides of literals are.
    pub code: Vec<String>,
    /// Whether the line is in test code.
    pub test: Vec<bool>,
}

impl<'a> Source<'a> {
    pub fn new(path: &'a str, text: &'a str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let masked = mask(text);
        let mut code: Vec<String> = masked.lines().map(str::to_owned).collect();
        code.resize(lines.len(), String::new());
        let all_test = is_test_file(path);
        let mut test = if all_test {
            vec![true; lines.len()]
        } else {
            test_lines(&code)
        };
        test.resize(lines.len(), false);
        Self {
            path,
            lines,
            code,
            test,
        }
    }

    /// Lines (from 1) and code of those that are not test code.
    pub fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.code.iter().zip(&self.test).enumerate();
        numbered
            .filter(|(_, (_, test))| !**test)
            .map(|(i, (code, _))| (i + 1, code.as_str()))
    }

    /// Whether the file as a whole is a test, a bench or an example.
    pub fn is_test_file(&self) -> bool {
        is_test_file(self.path)
    }

    /// The product code as one text, with the lines as they are beside it.
    pub fn product(&self) -> super::paths::Code {
        let masked: Vec<&str> = self
            .code
            .iter()
            .zip(&self.test)
            .map(|(code, test)| if *test { "" } else { code.as_str() })
            .collect();
        super::paths::Code {
            masked: masked.join("\n"),
            raw: self.lines.join("\n"),
        }
    }

    /// Lines (from 1) and code of all.
    pub fn all_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .iter()
            .enumerate()
            .map(|(i, code)| (i + 1, code.as_str()))
    }
}

/// The words of a line of code, each with its place.
pub fn words_of(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = 0;
    std::iter::from_fn(move || {
        let tail = code.get(rest..)?;
        let begin = rest + tail.find(is_word)?;
        let tail = code.get(begin..)?;
        let end = begin + tail.find(|c| !is_word(c)).unwrap_or(tail.len());
        rest = end;
        Some((begin, code.get(begin..end)?))
    })
}

/// Integration tests, benches, fuzz targets, and modules called `tests`.
fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs")
        || path.ends_with("build.rs")
        || path
            .split('/')
            .any(|part| matches!(part, "tests" | "benches" | "fuzz" | "examples"))
}

/// Replaces comments and the insides of literals by spaces; line breaks stay.
fn mask(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut out = String::with_capacity(text.len());
    let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
    let mut i = 0;
    while i < chars.len() {
        let end = match at(i) {
            '/' if at(i + 1) == '/' => find(&chars, i, |c, _| c == '\n'),
            '/' if at(i + 1) == '*' => block_comment(&chars, i),
            '"' => string(&chars, i),
            'r' if !follows_word(&chars, i) => raw_string(&chars, i).unwrap_or(i),
            '\'' => character(&chars, i).unwrap_or(i),
            _ => i,
        };
        if end == i {
            out.push(at(i));
            i += 1;
        } else {
            out.extend(
                chars
                    .get(i..end)
                    .unwrap_or_default()
                    .iter()
                    .map(|&c| blank(c)),
            );
            i = end;
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether the character before is part of a word, other than the `b` or `c` of `br"` and `cr"`.
fn follows_word(chars: &[char], i: usize) -> bool {
    let before = |n: usize| i.checked_sub(n).and_then(|at| chars.get(at)).copied();
    match before(1) {
        Some('b' | 'c') => before(2).is_some_and(is_word),
        other => other.is_some_and(is_word),
    }
}

fn find(chars: &[char], from: usize, stop: impl Fn(char, usize) -> bool) -> usize {
    (from..chars.len())
        .find(|&i| chars.get(i).is_some_and(|&c| stop(c, i)))
        .unwrap_or(chars.len())
}

fn block_comment(chars: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut i = start;
    while i < chars.len() {
        match (chars.get(i), chars.get(i + 1)) {
            (Some('/'), Some('*')) => (depth, i) = (depth + 1, i + 2),
            (Some('*'), Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

fn string(chars: &[char], start: usize) -> usize {
    let mut i = start + 1;
    while let Some(&c) = chars.get(i) {
        match c {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// The end of `r"…"`, `r#"…"#`, …; `None` where it is none (`r#type`).
fn raw_string(chars: &[char], start: usize) -> Option<usize> {
    let quote = find(chars, start + 1, |c, _| c != '#');
    if chars.get(quote) != Some(&'"') {
        return None;
    }
    let hashes = quote - start - 1;
    let closes =
        |c: char, i: usize| c == '"' && (1..=hashes).all(|n| chars.get(i + n) == Some(&'#'));
    Some((find(chars, quote + 1, closes) + 1 + hashes).min(chars.len()))
}

/// The end of a character literal; `None` where it is a lifetime.
fn character(chars: &[char], start: usize) -> Option<usize> {
    match (chars.get(start + 1)?, chars.get(start + 2)) {
        ('\\', _) => Some((find(chars, start + 3, |c, _| c == '\'') + 1).min(chars.len())),
        (_, Some('\'')) => Some(start + 3),
        _ => None,
    }
}

/// Which lines are inside an item under `#[cfg(test)]`, or an item with `#[test]`.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut test = vec![false; code.len()];
    let mut line = 0;
    while line < code.len() {
        let begins = code.get(line).is_some_and(|code| {
            let packed: String = code.split_whitespace().collect();
            packed.contains("#[cfg(test)]")
                || packed.contains("#[test]")
                || packed.contains("#[cfg(all(test")
        });
        if !begins {
            line += 1;
            continue;
        }
        let end = item_end(code, line);
        for flag in test.iter_mut().take(end + 1).skip(line) {
            *flag = true;
        }
        line = end + 1;
    }
    test
}

/// The last line of the item that begins at `start`: to its closing brace, or a semicolon before any.
fn item_end(code: &[String], start: usize) -> usize {
    let mut depth = 0usize;
    let mut brackets = 0usize;
    for (line, text) in code.iter().enumerate().skip(start) {
        for c in text.chars() {
            match c {
                '[' | '(' => brackets += 1,
                ']' | ')' => brackets = brackets.saturating_sub(1),
                '{' => depth += 1,
                '}' if depth <= 1 => return line,
                '}' => depth -= 1,
                ';' if depth == 0 && brackets == 0 => return line,
                _ => {}
            }
        }
    }
    code.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        let text = r##"let a = "asm!(\" x"; // asm!
/* asm! /* nested */ asm! */ let b = 'x'; let c = '\''; fn f<'a>(x: &'a str) {}
let d = r#"asm!("y")"#; let r#type = br"asm!"; let e = b"asm!"; asm!("nop");"##;
        let masked = mask(text);
        assert_eq!(masked.matches("asm!").count(), 1, "{masked}");
        assert!(
            masked.contains("fn f<'a>(x: &'a str) {}") && masked.contains("r#type"),
            "{masked}"
        );
        assert_eq!(masked.lines().count(), text.lines().count());
        for open in ["\"never closed", "/* never", "r#\"never", "'\\", "'", "/"] {
            assert_eq!(mask(open).chars().count(), open.chars().count(), "{open}");
        }
    }

    #[test]
    fn test_items_are_told_apart() {
        let text = "\
fn product() { println!() }
#[cfg(test)]
mod tests {
    fn helper() { if x { } }
}
fn more() {}
#[cfg(test)]
use x::{a, b};
#[test]
fn t() -> [u8; 3] {
}
fn last() {}
";
        let source = Source::new("crates/x/src/lib.rs", text);
        let product: Vec<usize> = source.product_lines().map(|(line, _)| line).collect();
        // A use item ends with the brace of its list; the rest of the line belongs to it, too.
        assert_eq!(product, [1, 6, 12]);
        assert!(
            Source::new("crates/x/tests/y.rs", text)
                .product_lines()
                .next()
                .is_none()
        );
    }
}
