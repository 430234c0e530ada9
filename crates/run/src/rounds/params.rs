//! Parameters: `-P NAME A..B[:STEP]` and `-L NAME a,b,c` make one command of each combination.
//!
//! Steps are computed in whole units of the smallest decimal place written, so `0.1..0.5:0.1`
//! gives `0.1 0.2 0.3 0.4 0.5` and no rounding errors.

use crate::error::{Error, ErrorKind};

/// More combinations than this are a mistake.
const MAX_COMBINATIONS: usize = 10_000;

/// A name and the values it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) values: Vec<String>,
}

fn wrong(text: &str, why: &str) -> Error {
    Error::new(ErrorKind::Usage, format!("parameter range `{text}`: {why}"))
        .hint("write it as 1..8, 1..8:2 or 0.1..0.5:0.1")
}

/// A decimal number as a whole number of `10^-places`.
fn decimal(text: &str) -> Option<(i64, u32)> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let joined = format!("{whole}{part}");
    if whole.is_empty() || part.len() > 9 || !joined.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let value: i64 = joined.parse().ok()?;
    Some((sign * value, u32::try_from(part.len()).ok()?))
}

fn rescale((value, places): (i64, u32), to: u32) -> Option<i64> {
    value.checked_mul(10i64.checked_pow(to.checked_sub(places)?)?)
}

fn show(value: i64, places: u32) -> String {
    if places == 0 {
        return value.to_string();
    }
    let width = places as usize + 1;
    let sign = if value < 0 { "-" } else { "" };
    let digits = format!("{:0width$}", value.unsigned_abs());
    let (whole, part) = digits.split_at(digits.len() - places as usize);
    format!("{sign}{whole}.{part}")
}

/// The values of `A..B` or `A..B:STEP`, both ends included.
pub(super) fn range(text: &str) -> Result<Vec<String>, Error> {
    let (first, rest) = text
        .split_once("..")
        .ok_or_else(|| wrong(text, "no `..` between the ends"))?;
    let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
    let read = |part: &str| {
        decimal(part).ok_or_else(|| wrong(text, &format!("`{part}` is not a decimal number")))
    };
    let (first, last, step) = (read(first)?, read(last)?, read(step)?);
    let places = first.1.max(last.1).max(step.1);
    let scale =
        |value| rescale(value, places).ok_or_else(|| wrong(text, "the numbers are too large"));
    let (first, last, step) = (scale(first)?, scale(last)?, scale(step)?.abs());
    if step == 0 {
        return Err(wrong(text, "the step is 0"));
    }
    let count = first.abs_diff(last) / step.unsigned_abs();
    if count >= MAX_COMBINATIONS as u64 {
        return Err(wrong(text, &format!("more than {MAX_COMBINATIONS} values")));
    }
    let sign = if first <= last { 1 } else { -1 };
    Ok((0..=count)
        .filter_map(|index| {
            let offset = i64::try_from(index).ok()?.checked_mul(step)?;
            Some(show(first.checked_add(sign * offset)?, places))
        })
        .collect())
}

/// Reads the pairs that clap collected.
pub(super) fn parse(ranges: &[String], lists: &[String]) -> Result<Vec<Parameter>, Error> {
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut add = |name: &str, values: Vec<String>| -> Result<(), Error> {
        if parameters.iter().any(|parameter| parameter.name == name) {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("parameter `{name}` is given twice"),
            ));
        }
        parameters.push(Parameter {
            name: name.to_owned(),
            values,
        });
        Ok(())
    };
    for pair in ranges.chunks_exact(2) {
        if let [name, values] = pair {
            add(name, range(values)?)?;
        }
    }
    for pair in lists.chunks_exact(2) {
        if let [name, values] = pair {
            add(name, values.split(',').map(ToOwned::to_owned).collect())?;
        }
    }
    Ok(parameters)
}

/// Every combination, the last parameter changing fastest; one empty combination without any.
pub(super) fn combinations(parameters: &[Parameter]) -> Result<Vec<Vec<(String, String)>>, Error> {
    let mut all: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for parameter in parameters {
        if all.len().saturating_mul(parameter.values.len()) > MAX_COMBINATIONS {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("the parameters make more than {MAX_COMBINATIONS} combinations"),
            ));
        }
        all = all
            .iter()
            .flat_map(|before| {
                parameter.values.iter().map(|value| {
                    let mut next = before.clone();
                    next.push((parameter.name.clone(), value.clone()));
                    next
                })
            })
            .collect();
    }
    Ok(all)
}

/// Replaces `{NAME}` by its value.
pub(super) fn substitute(text: &str, values: &[(String, String)]) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value)
    })
}

/// A parameter that no command uses, and a `{NAME}` that no parameter has, are slips of the pen: known before anything
/// is measured.
pub(super) fn check_use(
    parameters: &[Parameter],
    commands: &[std::borrow::Cow<'_, str>],
) -> Result<(), Error> {
    for parameter in parameters {
        let place = format!("{{{}}}", parameter.name);
        if !commands.iter().any(|command| command.contains(&place)) {
            let cause = format!("no command uses the parameter {}", parameter.name);
            return Err(Error::new(ErrorKind::Usage, cause)
                .hint(format!("write {place} where its value goes")));
        }
    }
    if parameters.is_empty() {
        return Ok(());
    }
    for command in commands {
        for rest in command.split('{').skip(1) {
            let Some((name, _)) = rest.split_once('}') else {
                continue;
            };
            let word = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
            if word && !parameters.iter().any(|parameter| parameter.name == name) {
                let cause = format!("`{command}`: no parameter is called {name}");
                let names: Vec<&str> = parameters.iter().map(|p| p.name.as_str()).collect();
                return Err(Error::new(ErrorKind::Usage, cause)
                    .hint(format!("there is {}", names.join(", "))));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(range("1..4").unwrap(), ["1", "2", "3", "4"]);
        assert_eq!(range("1..8:3").unwrap(), ["1", "4", "7"]);
        assert_eq!(range("0.1..0.4:0.1").unwrap(), ["0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(range("3..1").unwrap(), ["3", "2", "1"]);
        assert_eq!(range("-1..1").unwrap(), ["-1", "0", "1"]);
        assert_eq!(range("-0.5..0:0.5").unwrap(), ["-0.5", "0.0"]);
        for bad in [
            "",
            "1",
            "1..",
            "a..b",
            "1..5:0",
            "1..99999999999",
            "1..2:x",
            "1e3..2",
        ] {
            assert_eq!(range(bad).unwrap_err().kind, ErrorKind::Usage, "{bad}");
        }
        assert!(range("-9223372036854775807..9223372036854775807").is_err());
    }

    #[test]
    fn combinations_multiply() {
        let strings = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let parameters = parse(&strings(&["n", "1..2"]), &strings(&["c", "x,y"])).unwrap();
        let all = combinations(&parameters).unwrap();
        let shown: Vec<String> = all.iter().map(|v| substitute("{n}{c}{z}", v)).collect();
        assert_eq!(shown, ["1x{z}", "1y{z}", "2x{z}", "2y{z}"]);
        assert!(parse(&strings(&["n", "1..2"]), &strings(&["n", "a"])).is_err());
        assert_eq!(combinations(&[]).unwrap().len(), 1);
    }
}
