//! A small crate to compile: generics, traits, closures, formatting, a few tests.
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// A token of an arithmetic expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// A number.
    Number(f64),
    /// An operator.
    Operator(char),
    /// A parenthesis.
    Parenthesis(char),
}

/// Why an expression cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub enum Error {
    /// A character that has no meaning.
    Unexpected(char),
    /// The text ended too early.
    End,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unexpected(c) => write!(f, "unexpected {c:?}"),
            Error::End => f.write_str("unexpected end"),
        }
    }
}

/// Splits text into tokens.
pub fn tokens(text: &str) -> Result<Vec<Token>, Error> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(&c) = chars.peek() {
        match c {
            '0'..='9' | '.' => {
                let mut n = String::new();
                while let Some(&d) = chars.peek().filter(|d| d.is_ascii_digit() || **d == '.') {
                    n.push(d);
                    chars.next();
                }
                out.push(Token::Number(n.parse().map_err(|_| Error::Unexpected('.'))?));
            }
            '+' | '-' | '*' | '/' => {
                out.push(Token::Operator(c));
                chars.next();
            }
            '(' | ')' => {
                out.push(Token::Parenthesis(c));
                chars.next();
            }
            c if c.is_whitespace() => {
                chars.next();
            }
            c => return Err(Error::Unexpected(c)),
        }
    }
    Ok(out)
}

/// The value of an expression.
pub fn value(text: &str) -> Result<f64, Error> {
    let tokens = tokens(text)?;
    let mut at = 0;
    let v = sum(&tokens, &mut at)?;
    if at == tokens.len() { Ok(v) } else { Err(Error::End) }
}

fn sum(t: &[Token], at: &mut usize) -> Result<f64, Error> {
    let mut v = product(t, at)?;
    while let Some(Token::Operator(c @ ('+' | '-'))) = t.get(*at) {
        *at += 1;
        let r = product(t, at)?;
        v = if *c == '+' { v + r } else { v - r };
    }
    Ok(v)
}

fn product(t: &[Token], at: &mut usize) -> Result<f64, Error> {
    let mut v = atom(t, at)?;
    while let Some(Token::Operator(c @ ('*' | '/'))) = t.get(*at) {
        *at += 1;
        let r = atom(t, at)?;
        v = if *c == '*' { v * r } else { v / r };
    }
    Ok(v)
}

fn atom(t: &[Token], at: &mut usize) -> Result<f64, Error> {
    match t.get(*at) {
        Some(Token::Number(n)) => {
            *at += 1;
            Ok(*n)
        }
        Some(Token::Parenthesis('(')) => {
            *at += 1;
            let v = sum(t, at)?;
            *at += 1;
            Ok(v)
        }
        Some(Token::Operator(c) | Token::Parenthesis(c)) => Err(Error::Unexpected(*c)),
        None => Err(Error::End),
    }
}

/// Counts words, in order.
pub fn words<'a, I: IntoIterator<Item = &'a str>>(text: I) -> BTreeMap<String, usize> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for line in text {
        for w in line.split_whitespace() {
            *counts.entry(w).or_default() += 1;
        }
    }
    counts.into_iter().map(|(k, v)| (k.to_lowercase(), v)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!(value("1 + 2 * (3 - 4) / 8"), Ok(0.75));
        assert_eq!(value("1 + x"), Err(Error::Unexpected('x')));
        assert_eq!(value("1 +"), Err(Error::End));
    }

    #[test]
    fn counts() {
        let w = words(["a b a", "c a"]);
        assert_eq!(w.get("a"), Some(&3));
        assert!(std::panic::catch_unwind(|| value("(").unwrap()).is_err());
    }
}
