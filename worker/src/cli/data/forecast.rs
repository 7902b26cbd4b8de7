//! `data forecast`: estimates the number of queries of a log that gates would release; for the site's own use.

use std::io::Write;

use clap::Args;
use undertone_privacy::SamplingRate;

use super::DataError;
use crate::queries::dataset::{Reader, Subset};
use crate::queries::forecast::{ForecastGate, forecast};
use crate::site::folder::Folder;

/// Estimate how many queries of a log gates would release, for each sampling rate and threshold. Nothing is sent.
#[derive(Debug, Args)]
pub(super) struct ForecastCommand {
    /// The dataset: a query log of this site.
    name: String,
    /// Sampling rates, separated by commas.
    #[arg(long = "rates", value_name = "RATE,...", value_delimiter = ',', default_value = "0.1,0.25,0.5,0.75")]
    rates: Vec<f64>,
    /// Thresholds, separated by commas: the number of kept rows that a query needs.
    #[arg(long = "thresholds", value_name = "COUNT,...", value_delimiter = ',', default_value = "5,10,20,50")]
    thresholds: Vec<u32>,
}

impl ForecastCommand {
    pub(super) fn run(&self, folder: &Folder, out: &mut dyn Write) -> Result<(), DataError> {
        let refuse = |argument, reason: String| DataError::Argument { argument, reason };
        let rate = |rate: &f64| SamplingRate::new(*rate).map_err(|error| refuse("--rates", error.to_string()));
        let rates = self.rates.iter().map(rate).collect::<Result<Vec<_>, _>>()?;
        if self.thresholds.contains(&0) {
            return Err(refuse("--thresholds", "each threshold must be at least 1".to_owned()));
        }
        let reader = Reader::open(&folder.dataset(&self.name)?)?;
        let gates_of = |&threshold| rates.iter().map(move |&sampling_rate| ForecastGate { sampling_rate, threshold });
        let gates: Vec<ForecastGate> = self.thresholds.iter().flat_map(gates_of).collect();
        let estimate = forecast::<_, DataError>(|| reader.rows(Subset::Train).map(|row| Ok(row?)), &gates)?;
        let (low, high) = estimate.distinct;
        let row = |first: String, cells: Vec<String>| {
            cells.iter().fold(format!("{first:>14}"), |line, cell| line + &format!("{cell:>10}"))
        };
        let mut lines = vec![
            format!("{} has {} occurrences of {low:.0} to {high:.0} different texts.", self.name, estimate.occurrences),
            "Estimated number of released queries if records are protected; fewer if users are protected:".to_owned(),
            row("rate".to_owned(), self.rates.iter().map(f64::to_string).collect()),
        ];
        for (threshold, survivors) in self.thresholds.iter().zip(estimate.survivors.chunks(rates.len())) {
            let cells = survivors.iter().map(|survivors| format!("{survivors:.0}")).collect();
            lines.push(row(format!("threshold {threshold}"), cells));
        }
        let table = lines.join("\n") + "\n";
        out.write_all(table.as_bytes()).map_err(DataError::Print)
    }
}
