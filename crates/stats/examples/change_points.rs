//! The change points of series from stdin, for comparison with other implementations (`tests/history/change_points.py`): a line
//! is `WINDOW SIGNIFICANCE FLOOR VALUE VALUE …`, its answer the indices.

#![allow(clippy::print_stdout, reason = "an example")]

use std::io::BufRead as _;

use truecount_stats::{ChangeOptions, change_points};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let mut next = || words.next().ok_or("WINDOW SIGNIFICANCE FLOOR VALUE …");
        let options = ChangeOptions {
            window: next()?.parse()?,
            significance: next()?.parse()?,
            floor: next()?.parse()?,
            ..ChangeOptions::default()
        };
        let values = words.map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let found = change_points(&values, &options);
        let indices: Vec<String> = found.iter().map(|c| c.index.to_string()).collect();
        println!("{}", indices.join(" "));
    }
    Ok(())
}
