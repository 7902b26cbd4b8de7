//! `thresholds`: shows the guarantees of sampling rates and thresholds before there is a plan. It only computes: it
//! reads no site.

use std::io::Write;

use clap::Args;
use undertone_api::plan::thresholds::{ThresholdRequest, ThresholdRow, csv};

use super::CommandFailure;
use super::table::format_table;

/// Show which thresholds give which guarantee: for each epsilon and delta, the least k at each sampling rate.
///
/// A gate keeps each row of a log with probability beta, and releases a text if at least k kept rows contain it. Adding or
/// removing one row then changes the release by at most (epsilon, delta). Each entry is k by the published bound (Li,
/// Qardaji and Su 2012, Theorem 5) and k by the exact divergence. Rates above 1 - exp(-epsilon) give no guarantee and are
/// empty.
#[derive(Debug, Args)]
pub(super) struct ThresholdsCommand {
    /// The epsilons, separated by commas; above 0, at most 10.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NUMBERS")]
    epsilon: String,
    /// The deltas, separated by commas; at least 1e-15.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NUMBERS")]
    delta: String,
    /// The sampling rates, separated by commas; at most 0.99.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NUMBERS")]
    rate: String,
    /// Print JSON: an object for each epsilon and delta.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV: a line for each rate with its thresholds.
    #[arg(long)]
    csv: bool,
}

impl ThresholdsCommand {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let query = ThresholdRequest::parse(&self.epsilon, &self.delta, &self.rate)?;
        let lines = query.lines()?;
        if self.json {
            serde_json::to_writer_pretty(&mut *out, &lines)?;
            writeln!(out)?;
        } else if self.csv {
            write!(out, "{}", csv(&lines))?;
        } else {
            let mut head = vec!["EPSILON".to_owned(), "DELTA".to_owned()];
            head.extend(query.rates.iter().map(|rate| format!("BETA {rate}")));
            let head: Vec<&str> = head.iter().map(String::as_str).collect();
            let rows: Vec<Vec<String>> = lines.iter().map(|line| format_row(line, &query.rates)).collect();
            write!(out, "{}", format_table(&head, &rows))?;
            writeln!(
                out,
                "\nEach entry: least k by the published bound / by the exact divergence, for one row added, removed or emptied."
            )?;
        }
        Ok(())
    }
}

fn format_row(line: &ThresholdRow, rates: &[f64]) -> Vec<String> {
    let cell = |rate: &f64| {
        line.find_rate(*rate)
            .map_or_else(|| "-".to_owned(), |entry| format!("{}/{}", entry.threshold, entry.threshold_tight))
    };
    let mut row = vec![line.epsilon.to_string(), format!("{:e}", line.delta)];
    row.extend(rates.iter().map(cell));
    row
}

#[cfg(test)]
mod tests {
    use super::ThresholdsCommand;

    fn run(epsilon: &str, json: bool, csv: bool) -> Result<String, String> {
        let command = ThresholdsCommand {
            epsilon: epsilon.to_owned(),
            delta: "1e-6".to_owned(),
            rate: "0.1,0.3".to_owned(),
            json,
            csv,
        };
        let mut out = Vec::new();
        command.run(&mut out).map_err(|failure| failure.error.to_string())?;
        String::from_utf8(out).map_err(|error| error.to_string())
    }

    #[test]
    fn table_has_rows_of_guarantees_and_columns_of_rates() {
        let text = run("0.25, 0.5", false, false).expect("the numbers are in range");
        assert!(text.starts_with("EPSILON") && text.contains("BETA 0.3"), "{text}");
        let row = |epsilon: &str| {
            text.lines().find(|line| line.starts_with(epsilon)).map(|line| line.split_whitespace().collect::<Vec<_>>())
        };
        assert_eq!(row("0.25 ").expect("a row"), ["0.25", "1e-6", "23/16", "-"]);
        assert_eq!(row("0.5 ").expect("a row"), ["0.5", "1e-6", "13/10", "42/30"]);
    }

    #[test]
    fn json_and_csv_contain_the_same_numbers() {
        let text = run("0.5", true, false).expect("the numbers are in range");
        let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(json[0]["feasible"][1], serde_json::json!({ "rate": 0.3, "threshold": 42, "threshold_tight": 30 }));
        assert!(run("0.5", false, true).expect("the numbers are in range").ends_with("0.5,1e-6,0.3,42,30\r\n"));
    }

    #[test]
    fn invalid_number_is_named() {
        assert!(run("half", false, false).expect_err("it is no number").contains("`half`"));
    }
}
