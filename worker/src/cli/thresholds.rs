//! `thresholds`: shows the guarantees of sampling rates and thresholds before there is a plan. It only computes: it
//! reads no site.

use std::io::Write;

use clap::Args;
use undertone_api::plan::thresholds::{ThresholdRequest, ThresholdRow, csv};

use super::Failure;
use super::table::table;

/// Show which thresholds keep which promise: for each epsilon and delta the least k at each sampling rate.
///
/// Where each row of a log is kept with probability beta, and a text is shown when at least k kept rows have it, one row more or
/// less changes what is shown by at most (epsilon, delta). Each entry is k by the published bound (Li, Qardaji and Su 2012,
/// Theorem 5) and k by the exact divergence. Rates above 1 - exp(-epsilon) promise nothing and are empty.
#[derive(Debug, Args)]
pub(super) struct Thresholds {
    /// The epsilons, with commas between; above 0, at most 10.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NUMBERS")]
    epsilon: String,
    /// The deltas, with commas between; at least 1e-15.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NUMBERS")]
    delta: String,
    /// The sampling rates, with commas between; at most 0.99.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NUMBERS")]
    rate: String,
    /// As JSON: an object for each epsilon and delta.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// As CSV: a line for each pair of a rate and its thresholds.
    #[arg(long)]
    csv: bool,
}

impl Thresholds {
    pub(super) fn show(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let asked = ThresholdRequest::parse(&self.epsilon, &self.delta, &self.rate)?;
        let lines = asked.lines()?;
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &lines)?;
            writeln!(out)?;
        } else if self.csv {
            write!(out, "{}", csv(&lines))?;
        } else {
            let mut head = vec!["EPSILON".to_owned(), "DELTA".to_owned()];
            head.extend(asked.rates.iter().map(|rate| format!("BETA {rate}")));
            let head: Vec<&str> = head.iter().map(String::as_str).collect();
            let rows: Vec<Vec<String>> = lines.iter().map(|line| row(line, &asked.rates)).collect();
            write!(out, "{}", table(&head, &rows))?;
            writeln!(
                out,
                "\nEach entry: least k by the published bound / by the exact divergence, for one row added, removed or emptied."
            )?;
        }
        Ok(())
    }
}

fn row(line: &ThresholdRow, rates: &[f64]) -> Vec<String> {
    let cell = |rate: &f64| {
        line.find_rate(*rate).map_or_else(|| "-".to_owned(), |one| format!("{}/{}", one.threshold, one.threshold_tight))
    };
    let mut row = vec![line.epsilon.to_string(), format!("{:e}", line.delta)];
    row.extend(rates.iter().map(cell));
    row
}

#[cfg(test)]
mod tests {
    use super::Thresholds;

    fn shown(epsilon: &str, json: bool, csv: bool) -> Result<String, String> {
        let asked =
            Thresholds { epsilon: epsilon.to_owned(), delta: "1e-6".to_owned(), rate: "0.1,0.3".to_owned(), json, csv };
        let mut out = Vec::new();
        asked.show(&mut out).map_err(|failure| failure.error.to_string())?;
        String::from_utf8(out).map_err(|error| error.to_string())
    }

    #[test]
    fn the_table_has_a_row_for_each_promise_and_a_column_for_each_rate() {
        let text = shown("0.25, 0.5", false, false).expect("the numbers are in range");
        assert!(text.starts_with("EPSILON") && text.contains("BETA 0.3"), "{text}");
        let row = |epsilon: &str| {
            text.lines().find(|line| line.starts_with(epsilon)).map(|line| line.split_whitespace().collect::<Vec<_>>())
        };
        assert_eq!(row("0.25 ").expect("a row"), ["0.25", "1e-6", "23/16", "-"]);
        assert_eq!(row("0.5 ").expect("a row"), ["0.5", "1e-6", "13/10", "42/30"]);
    }

    #[test]
    fn programs_get_the_same_numbers() {
        let text = shown("0.5", true, false).expect("the numbers are in range");
        let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(json[0]["feasible"][1], serde_json::json!({ "rate": 0.3, "threshold": 42, "threshold_tight": 30 }));
        assert!(shown("0.5", false, true).expect("the numbers are in range").ends_with("0.5,1e-6,0.3,42,30\r\n"));
    }

    #[test]
    fn what_is_no_number_is_named() {
        assert!(shown("half", false, false).expect_err("it is no number").contains("`half`"));
    }
}
