//! The grammar, step one: text to tree, no look-ups.
//!
//! ```text
//! expression = item { "," item }
//! item       = event | "{" event { "," event } "}" [ ":" modifiers ]
//! event      = head [ ":" modifiers ] | pmu "/" [ term { "," term } ] "/" [ [ ":" ] modifiers ]
//! head       = "r" hex-digits | name | system ":" tracepoint
//! term       = name [ "=" ( number | word | "'" text "'" | "?" ) ]
//! ```
//!
//! Facts: perf-list(1); blanks around events and terms are allowed here.

use crate::ast::{EventExpr, Expression, GroupExpr, Head, Term, TermValue};
use crate::error::{Error, ErrorKind, MAX_LENGTH, Span};
use crate::modifiers::{AddError, Modifiers};

/// Parses an expression without looking anything up.
///
/// # Errors
/// Whatever does not fit the grammar, with its place.
///
/// ```
/// let tree = truecount_events::parse("instructions:u, {cycles,cpu/event=0xc4,umask=4/}:u").unwrap();
/// assert_eq!(tree.groups.len(), 2);
/// assert_eq!(tree.to_string(), "instructions:u,{cycles,cpu/event=0xc4,umask=0x4/}:u");
/// ```
pub fn parse(expression: &str) -> Result<Expression, Error> {
    let mut cursor = Cursor {
        text: expression,
        at: 0,
    };
    if expression.len() > MAX_LENGTH {
        let shown: String = expression.chars().take(40).collect();
        return Err(Error::new(ErrorKind::TooLong, &shown, Span::new(0, 0)));
    }
    cursor.blanks();
    if cursor.peek().is_none() {
        return Err(cursor.error(ErrorKind::Empty, 0));
    }
    let mut groups = Vec::new();
    loop {
        cursor.blanks();
        groups.push(item(&mut cursor)?);
        cursor.blanks();
        match cursor.peek() {
            None => break,
            Some(',') => cursor.bump(),
            Some(_) => return Err(cursor.expected("a comma or the end")),
        }
    }
    Ok(Expression { groups })
}

/// Parses the terms of a sysfs `events/` file: `event=0xcd,umask=0x1,ldlat=3`.
///
/// # Errors
/// Whatever does not fit the grammar.
pub fn parse_terms(text: &str) -> Result<Vec<Term>, Error> {
    let mut cursor = Cursor { text, at: 0 };
    if text.len() > MAX_LENGTH {
        return Err(Error::new(ErrorKind::TooLong, "", Span::new(0, 0)));
    }
    let terms = terms(&mut cursor)?;
    cursor.blanks();
    match cursor.peek() {
        None => Ok(terms),
        Some(_) => Err(cursor.expected("a comma or the end")),
    }
}

fn item(cursor: &mut Cursor<'_>) -> Result<GroupExpr, Error> {
    let start = cursor.at;
    if cursor.peek() != Some('{') {
        let event = event(cursor)?;
        let span = event.span;
        return Ok(GroupExpr {
            events: vec![event],
            braces: false,
            modifiers: Modifiers::default(),
            span,
        });
    }
    cursor.bump();
    let mut events = Vec::new();
    loop {
        cursor.blanks();
        events.push(event(cursor)?);
        cursor.blanks();
        match cursor.peek() {
            Some(',') => cursor.bump(),
            Some('}') => break,
            _ => return Err(cursor.expected("a comma or the closing brace")),
        }
    }
    cursor.bump();
    let modifiers = if cursor.peek() == Some(':') {
        cursor.bump();
        modifiers(cursor, true)?
    } else {
        Modifiers::default()
    };
    Ok(GroupExpr {
        events,
        braces: true,
        modifiers,
        span: Span::new(start, cursor.at),
    })
}

fn event(cursor: &mut Cursor<'_>) -> Result<EventExpr, Error> {
    let start = cursor.at;
    let name = cursor.word();
    if name.is_empty() {
        return Err(cursor.expected("an event name"));
    }
    if cursor.peek() == Some('/') {
        cursor.bump();
        let terms = terms(cursor)?;
        cursor.blanks();
        if cursor.peek() != Some('/') {
            return Err(cursor.expected("a comma or the closing slash"));
        }
        cursor.bump();
        let head_span = Span::new(start, cursor.at);
        let colon = cursor.peek() == Some(':');
        if colon {
            cursor.bump();
        }
        let modifiers = modifiers(cursor, colon)?;
        let head = Head::Pmu {
            pmu: name.to_owned(),
            terms,
        };
        return Ok(EventExpr {
            head,
            modifiers,
            span: Span::new(start, cursor.at),
            head_span,
        });
    }
    let mut head = raw(name).map_or_else(|| Head::Name(name.to_owned()), Head::Raw);
    if matches!(head, Head::Name(_)) && looks_raw(name) {
        return Err(cursor.error(ErrorKind::BadNumber(name.to_owned()), start));
    }
    let mut head_span = Span::new(start, cursor.at);
    let mut modifiers_given = Modifiers::default();
    if cursor.peek() == Some(':') {
        cursor.bump();
        let (at, word) = (cursor.at, cursor.ahead());
        let tracepoint = matches!(head, Head::Name(_)) && is_tracepoint(word);
        if tracepoint {
            cursor.at = at.saturating_add(word.len());
            let name_span = Span::new(at, cursor.at);
            head = Head::Tracepoint {
                system: name.to_owned(),
                name: word.to_owned(),
                name_span,
            };
            head_span = Span::new(start, cursor.at);
            if cursor.peek() == Some(':') {
                cursor.bump();
                modifiers_given = modifiers(cursor, true)?;
            }
        } else {
            modifiers_given = modifiers(cursor, true)?;
        }
    }
    Ok(EventExpr {
        head,
        modifiers: modifiers_given,
        span: Span::new(start, cursor.at),
        head_span,
    })
}

/// A tracepoint's name has an underscore, a digit or many letters; modifiers are few letters from a short list.
/// `instructions:uz` is a mistyped modifier, `sched:sched_switch` and `syscalls:exit` are tracepoints.
fn is_tracepoint(word: &str) -> bool {
    let letters = word.chars().count();
    let strangers = word.chars().filter(|&c| !Modifiers::is_letter(c)).count();
    strangers > 0 && letters >= 3 && (strangers >= 2 || word.contains('_'))
}

fn terms(cursor: &mut Cursor<'_>) -> Result<Vec<Term>, Error> {
    let mut terms = Vec::new();
    loop {
        cursor.blanks();
        if terms.is_empty() && matches!(cursor.peek(), None | Some('/')) {
            return Ok(terms);
        }
        terms.push(term(cursor)?);
        cursor.blanks();
        if cursor.peek() != Some(',') {
            return Ok(terms);
        }
        cursor.bump();
    }
}

fn term(cursor: &mut Cursor<'_>) -> Result<Term, Error> {
    let start = cursor.at;
    let name = cursor.word().to_owned();
    if name.is_empty() {
        return Err(cursor.expected("a term such as event=0x3c"));
    }
    let value = if cursor.peek() == Some('=') {
        cursor.bump();
        Some(value(cursor)?)
    } else {
        None
    };
    Ok(Term {
        name,
        value,
        span: Span::new(start, cursor.at),
    })
}

fn value(cursor: &mut Cursor<'_>) -> Result<TermValue, Error> {
    let start = cursor.at;
    match cursor.peek() {
        Some('?') => {
            cursor.bump();
            Ok(TermValue::Open)
        }
        Some('\'') => {
            cursor.bump();
            let text = cursor.take_while(|c| c != '\'').to_owned();
            if cursor.peek().is_none() {
                return Err(cursor.expected("the closing quote"));
            }
            cursor.bump();
            Ok(TermValue::Text(text))
        }
        _ => {
            let word = cursor.word();
            if word.is_empty() {
                return Err(cursor.expected("a value"));
            }
            if word.starts_with(|c: char| c.is_ascii_digit()) {
                return match number(word) {
                    Some(n) => Ok(TermValue::Number(n)),
                    None => Err(cursor.error(ErrorKind::BadNumber(word.to_owned()), start)),
                };
            }
            Ok(TermValue::Text(word.to_owned()))
        }
    }
}

/// `required`: at least one letter must follow.
fn modifiers(cursor: &mut Cursor<'_>, required: bool) -> Result<Modifiers, Error> {
    let mut all = Modifiers::default();
    let first = cursor.at;
    while let Some(letter) = cursor.peek().filter(|c| c.is_alphanumeric() || *c == '_') {
        let at = cursor.at;
        cursor.bump();
        if let Err(why) = all.add(letter) {
            let kind = match why {
                AddError::Unknown => ErrorKind::UnknownModifier(letter),
                AddError::TooPrecise => ErrorKind::TooPrecise,
            };
            return Err(cursor.error(kind, at));
        }
    }
    if required && cursor.at == first {
        return Err(cursor.expected("a modifier letter such as u"));
    }
    Ok(all)
}

/// Decimal, or hexadecimal after `0x`.
pub(crate) fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(hex) => hexadecimal(hex),
        None if word.bytes().all(|b| b.is_ascii_digit()) => word.parse().ok(),
        None => None,
    }
}

fn hexadecimal(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// `r` and hexadecimal digits.
pub(crate) fn raw(word: &str) -> Option<u64> {
    word.strip_prefix('r').and_then(hexadecimal)
}

fn looks_raw(word: &str) -> bool {
    word.strip_prefix('r')
        .is_some_and(|d| d.len() > 16 && d.bytes().all(|b| b.is_ascii_hexdigit()))
}

struct Cursor<'a> {
    text: &'a str,
    /// Always on a character boundary.
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) {
        self.at = self
            .at
            .saturating_add(self.peek().map_or(0, char::len_utf8));
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at = self.at.saturating_add(end);
        rest.get(..end).unwrap_or("")
    }

    fn blanks(&mut self) {
        self.take_while(char::is_whitespace);
    }

    fn word(&mut self) -> &'a str {
        let word = self.ahead();
        self.at = self.at.saturating_add(word.len());
        word
    }

    /// The word that follows, without taking it.
    fn ahead(&self) -> &'a str {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c)))
            .unwrap_or(rest.len());
        rest.get(..end).unwrap_or("")
    }

    /// An error whose span goes from `start` to here.
    fn error(&self, kind: ErrorKind, start: usize) -> Error {
        Error::new(kind, self.text, Span::new(start, self.at))
    }

    fn expected(&self, what: &'static str) -> Error {
        let found = self.peek();
        let end = self.at.saturating_add(found.map_or(0, char::len_utf8));
        Error::new(
            ErrorKind::Expected { what, found },
            self.text,
            Span::new(self.at, end),
        )
    }
}
