//! The formulas of metrics: a small expression language that cannot do anything but arithmetic.
//!
//! ```text
//! expression := sum [ ("<" | ">") sum ]
//! sum        := product { ("+" | "-") product }
//! product    := unary { ("*" | "/") unary }
//! unary      := [ "-" ] ( number | name | function "(" expression { "," expression } ")" | "(" expression ")" )
//! ```
//! Functions: `min(a, b)`, `max(a, b)`, `if(condition, then, else)` (only the branch taken is evaluated).
//! A name is a letter or `_`, then letters, digits, `_` and `.`; or anything between back-ticks.

use std::fmt;

/// Deepest nesting, and so the deepest recursion.
const DEEPEST: usize = 64;
/// Longest formula, in bytes.
const LONGEST: usize = 4096;

/// A parsed formula.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A constant.
    Number(f64),
    /// A count, a constant of the machine, or another metric.
    Name(String),
    /// Minus.
    Negate(Box<Expr>),
    /// Two operands.
    Binary(Op, Box<Expr>, Box<Expr>),
    /// `if(condition, then, else)`.
    If(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// What joins two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `min`
    Min,
    /// `max`
    Max,
    /// `<`, 1 or 0
    Less,
    /// `>`, 1 or 0
    Greater,
}

/// A formula that does not fit the grammar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Offset in bytes.
    pub offset: usize,
    /// What should stand there.
    pub expected: &'static str,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} at offset {}", self.expected, self.offset)
    }
}

impl std::error::Error for ParseError {}

/// Why a formula has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoValue {
    /// A count is missing.
    Missing(String),
    /// A divisor is 0.
    DivisionByZero(String),
    /// The result is too large, or no number.
    NotFinite,
    /// A metric refers to itself.
    Circular(String),
    /// This machine does not count what the pack needs, and why that is known.
    NotHere(String),
}

impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "{name} was not counted"),
            Self::DivisionByZero(what) => write!(f, "{what} is 0"),
            Self::NotFinite => f.write_str("the result is not a finite number"),
            Self::NotHere(why) => f.write_str(why),
            Self::Circular(name) => write!(f, "the formula of {name} refers to itself"),
        }
    }
}

impl std::error::Error for NoValue {}

impl Expr {
    /// Parses a formula.
    ///
    /// # Errors
    /// The place where it does not fit the grammar.
    ///
    /// ```
    /// use truecount_events::metrics::Expr;
    /// let ipc = Expr::parse("instructions / cycles").unwrap();
    /// let counts = |name: &str| match name { "instructions" => Ok(300.0), _ => Ok(200.0) };
    /// assert_eq!(ipc.value(&counts), Ok(1.5));
    /// ```
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parser = Parser {
            text,
            at: 0,
            depth: 0,
        };
        if text.len() > LONGEST {
            return Err(parser.error("a formula of at most 4096 bytes"));
        }
        let expr = parser.comparison()?;
        parser.blanks();
        if parser.at < text.len() {
            return Err(parser.error("an operator or the end"));
        }
        Ok(expr)
    }

    /// The value, with what `look_up` says for names.
    ///
    /// # Errors
    /// A name without value, a division by zero, a result that is not finite.
    pub fn value(&self, look_up: &dyn Fn(&str) -> Result<f64, NoValue>) -> Result<f64, NoValue> {
        let value = match self {
            Self::Number(number) => *number,
            Self::Name(name) => look_up(name)?,
            Self::Negate(inner) => -inner.value(look_up)?,
            Self::If(condition, then, otherwise) => {
                if condition.value(look_up)? == 0.0 {
                    otherwise.value(look_up)?
                } else {
                    then.value(look_up)?
                }
            }
            Self::Binary(op, left, right) => {
                let (a, b) = (left.value(look_up)?, right.value(look_up)?);
                match op {
                    Op::Add => a + b,
                    Op::Subtract => a - b,
                    Op::Multiply => a * b,
                    Op::Divide if b == 0.0 => {
                        return Err(NoValue::DivisionByZero(right.to_string()));
                    }
                    Op::Divide => a / b,
                    Op::Min => a.min(b),
                    Op::Max => a.max(b),
                    Op::Less => f64::from(u8::from(a < b)),
                    Op::Greater => f64::from(u8::from(a > b)),
                }
            }
        };
        if value.is_finite() {
            Ok(value)
        } else {
            Err(NoValue::NotFinite)
        }
    }

    /// The names that the value depends on, in order, each once. Where `known` gives the value of a condition, only
    /// the branch that is taken counts.
    #[must_use]
    pub fn names(&self, known: &dyn Fn(&str) -> Option<f64>) -> Vec<String> {
        let mut names = Vec::new();
        self.collect(known, &mut names);
        names
    }

    fn collect(&self, known: &dyn Fn(&str) -> Option<f64>, names: &mut Vec<String>) {
        match self {
            Self::Number(_) => {}
            Self::Name(name) => {
                if known(name).is_none() && !names.contains(name) {
                    names.push(name.clone());
                }
            }
            Self::Negate(inner) => inner.collect(known, names),
            Self::Binary(_, left, right) => {
                left.collect(known, names);
                right.collect(known, names);
            }
            Self::If(condition, then, otherwise) => {
                let known_only =
                    |name: &str| known(name).ok_or_else(|| NoValue::Missing(name.to_owned()));
                match condition.value(&known_only) {
                    Ok(0.0) => otherwise.collect(known, names),
                    Ok(_) => then.collect(known, names),
                    Err(_) => {
                        condition.collect(known, names);
                        then.collect(known, names);
                        otherwise.collect(known, names);
                    }
                }
            }
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
            Self::Negate(inner) => write!(f, "-{inner}"),
            Self::If(c, a, b) => write!(f, "if({c}, {a}, {b})"),
            Self::Binary(Op::Min, a, b) => write!(f, "min({a}, {b})"),
            Self::Binary(Op::Max, a, b) => write!(f, "max({a}, {b})"),
            Self::Binary(op, a, b) => {
                let sign = match op {
                    Op::Add => "+",
                    Op::Subtract => "-",
                    Op::Multiply => "*",
                    Op::Divide => "/",
                    Op::Less => "<",
                    _ => ">",
                };
                write!(f, "({a} {sign} {b})")
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn error(&self, expected: &'static str) -> ParseError {
        ParseError {
            offset: self.at,
            expected,
        }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes one of the signs, if it comes next.
    fn sign(&mut self, signs: &str) -> Option<char> {
        self.blanks();
        let next = self.rest().chars().next()?;
        signs.contains(next).then(|| {
            self.at += next.len_utf8();
            next
        })
    }

    fn comparison(&mut self) -> Result<Expr, ParseError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error("less nesting"));
        }
        let left = self.sum()?;
        let expr = match self.sign("<>") {
            None => left,
            Some(sign) => {
                let op = if sign == '<' { Op::Less } else { Op::Greater };
                Expr::Binary(op, Box::new(left), Box::new(self.sum()?))
            }
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn sum(&mut self) -> Result<Expr, ParseError> {
        let mut left = self.product()?;
        while let Some(sign) = self.sign("+-") {
            let op = if sign == '+' { Op::Add } else { Op::Subtract };
            left = Expr::Binary(op, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expr, ParseError> {
        let mut left = self.unary()?;
        while let Some(sign) = self.sign("*/") {
            let op = if sign == '*' {
                Op::Multiply
            } else {
                Op::Divide
            };
            left = Expr::Binary(op, Box::new(left), Box::new(self.unary()?));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, ParseError> {
        if self.sign("-").is_some() {
            return Ok(Expr::Negate(Box::new(self.primary()?)));
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Expr, ParseError> {
        self.blanks();
        let rest = self.rest();
        match rest.chars().next() {
            Some('(') => {
                self.at += 1;
                let inner = self.comparison()?;
                self.close()?;
                Ok(inner)
            }
            Some('`') => {
                let name = rest.get(1..).and_then(|r| r.split_once('`'));
                let (name, _) = name.ok_or(self.error("a closing back-tick"))?;
                let expr = Expr::Name(name.to_owned());
                self.at += name.len() + 2;
                Ok(expr)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => {
                let len = number_len(rest);
                let number = rest.get(..len).and_then(|t| t.parse::<f64>().ok());
                let number = number
                    .filter(|n| n.is_finite())
                    .ok_or(self.error("a number"))?;
                self.at += len;
                Ok(Expr::Number(number))
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let len = rest
                    .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'))
                    .unwrap_or(rest.len());
                let name = rest.get(..len).unwrap_or("").to_owned();
                self.at += len;
                if self.sign("(").is_some() {
                    self.function(&name)
                } else {
                    Ok(Expr::Name(name))
                }
            }
            _ => Err(self.error("a number, a name or (")),
        }
    }

    fn function(&mut self, name: &str) -> Result<Expr, ParseError> {
        let first = Box::new(self.comparison()?);
        self.comma()?;
        let second = Box::new(self.comparison()?);
        let expr = match name {
            "min" => Expr::Binary(Op::Min, first, second),
            "max" => Expr::Binary(Op::Max, first, second),
            "if" => {
                self.comma()?;
                Expr::If(first, second, Box::new(self.comparison()?))
            }
            _ => return Err(self.error("min, max or if before (")),
        };
        self.close()?;
        Ok(expr)
    }

    fn comma(&mut self) -> Result<(), ParseError> {
        self.sign(",").map(|_| ()).ok_or(self.error("a comma"))
    }

    fn close(&mut self) -> Result<(), ParseError> {
        self.sign(")").map(|_| ()).ok_or(self.error(")"))
    }
}

fn number_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let run = bytes.get(from..).unwrap_or(&[]);
        from + run.iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let after = digits(end + 1 + sign);
        if after > end + 1 + sign {
            end = after;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, NoValue> {
        Expr::parse(text).unwrap().value(&|name| match name {
            "a" => Ok(6.0),
            "b.c" => Ok(2.0),
            "zero" => Ok(0.0),
            _ => Err(NoValue::Missing(name.to_owned())),
        })
    }

    #[test]
    fn arithmetic() {
        assert_eq!(value("1 + 2 * 3"), Ok(7.0));
        assert_eq!(value("(1 + 2) * 3 - -1"), Ok(10.0));
        assert_eq!(value("10 - 4 - 3"), Ok(3.0));
        assert_eq!(value("16/4/2"), Ok(2.0));
        assert_eq!(value("a/b.c"), Ok(3.0));
        assert_eq!(value("`a` * 1.5e1"), Ok(90.0));
        assert_eq!(value("max(0, 1 - a)"), Ok(0.0));
        assert_eq!(value("min(a, 3)"), Ok(3.0));
        assert_eq!(value("if(a > 5, 1, missing)"), Ok(1.0));
        assert_eq!(value("if(zero, missing, 2)"), Ok(2.0));
    }

    #[test]
    fn what_has_no_value() {
        assert_eq!(
            value("a / zero"),
            Err(NoValue::DivisionByZero("zero".into()))
        );
        assert_eq!(
            value("a / (a - a)"),
            Err(NoValue::DivisionByZero("(a - a)".into()))
        );
        assert_eq!(value("1 + x"), Err(NoValue::Missing("x".into())));
        assert_eq!(value("1e308 * 1e308"), Err(NoValue::NotFinite));
    }

    #[test]
    fn what_is_no_formula() {
        for text in [
            "",
            "1 +",
            "(1",
            "f(1,2)",
            "min(1)",
            "1 2",
            "`a",
            "é",
            "1 < 2 < 3",
            ".",
        ] {
            assert!(Expr::parse(text).is_err(), "{text}");
        }
        assert!(Expr::parse(&"(".repeat(100_000)).is_err());
        assert!(Expr::parse(&"(".repeat(2000)).is_err());
        assert!(Expr::parse(&format!("{}1", "-".repeat(3000))).is_err());
    }

    #[test]
    fn names_skip_the_branch_not_taken() {
        let expr = Expr::parse("if(smt, any, own) / x + x").unwrap();
        assert_eq!(expr.names(&|n| (n == "smt").then_some(0.0)), ["own", "x"]);
        assert_eq!(expr.names(&|_| None), ["smt", "any", "own", "x"]);
    }
}
