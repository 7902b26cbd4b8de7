//! `data prepare --queries`: makes a dataset of this site from query logs.

use std::path::PathBuf;

use clap::Args;
use serde::de::DeserializeOwned;
use time::OffsetDateTime;

use super::prepare::{Prepare, Reach, dated};
use super::{Bar, DataError, key_note};
use crate::queries::log::{ColumnMap, LogFormat, ReadOptions};
use crate::queries::normalize::{BlankRule, CaseRule, DigitRule, PunctuationRule, TextNormalization, UnicodeForm};
use crate::queries::prepare::{self, LONGEST, PrepareOptions};
use crate::site::clock;
use crate::site::folder::Folder;

/// The arguments of `data prepare` that apply to recordings only.
const RECORDINGS: [&str; 26] = [
    "input",
    "alignments",
    "align",
    "model",
    "dictionary",
    "align_seconds",
    "label_step",
    "phone_frames",
    "phone_map",
    "subsets",
    "speakers",
    "speakers_from",
    "speaker_range",
    "first",
    "skip",
    "utterances",
    "utterances_from",
    "units",
    "unit_column",
    "classes",
    "least_frames",
    "class_map",
    "normalize",
    "deltas",
    "tolerance",
    "longest",
];

/// What is a query log, and what becomes of its queries. None of it with recordings.
#[derive(Debug, Args)]
#[command(next_help_heading = "Query logs")]
pub(super) struct QueryLog {
    /// Query logs instead of recordings: CSV or TSV with a header, JSON Lines, or Parquet, as their names say.
    ///
    /// In private CSV a row is a line: where the quotes of a row do not close on its line, it could take in the rows of others, and
    /// the log is refused. Write queries of several lines as JSON Lines or Parquet.
    ///
    /// Interrupted, the same command goes on where it stopped. Rows that cannot be used are counted, and a few are shown in the
    /// dataset's report.json, which stays here.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = RECORDINGS)]
    queries: Vec<PathBuf>,
    /// What the logs are, where their names do not say it: `csv`, `tsv`, `jsonl` or `parquet`.
    #[arg(long, value_parser = named::<LogFormat>, conflicts_with = "input")]
    format: Option<LogFormat>,
    /// What stands between fields of CSV.
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter, conflicts_with = "input")]
    delimiter: Option<u8>,
    /// The names of the columns of CSV whose first line is a row already.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', conflicts_with = "input")]
    header: Option<Vec<String>>,
    /// The column that holds the query.
    #[arg(long, value_name = "NAME", default_value = "text", conflicts_with = "input")]
    text_column: String,
    /// The column that says whose a query is (a user, a patient, a session), for jobs that protect users. Only a hash under a
    /// key of the dataset's own is kept. A row without one is left out.
    #[arg(long, value_name = "NAME", conflicts_with = "input")]
    user_column: Option<String>,
    /// The column that says how often a row's query occurred; without it, each row is one occurrence.
    #[arg(long, value_name = "NAME", conflicts_with = "input")]
    count_column: Option<String>,
    /// The column that holds the query's label; it may be empty. Only for public data: the golden set and the tests of a job.
    #[arg(long, value_name = "NAME", conflicts_with = "input")]
    label_column: Option<String>,
    /// The column that says which subset a row belongs to.
    #[arg(long, value_name = "NAME", conflicts_with = "input")]
    subset_column: Option<String>,
    /// A value of --subset-column whose rows are held out for tests; may be repeated.
    #[arg(long = "test-subset", value_name = "VALUE", requires = "subset_column")]
    test_subsets: Vec<String>,
    /// A value of --subset-column whose rows are to learn from; may be repeated. Rows of others are then left out.
    #[arg(long = "train-subset", value_name = "VALUE", requires = "subset_column")]
    train_subsets: Vec<String>,
    /// Unicode's normal form of queries: `nfc`, `nfkc` (wide and circled characters become plain ones) or `keep`.
    #[arg(long, default_value = "nfc", value_parser = named::<UnicodeForm>, conflicts_with = "input")]
    form: UnicodeForm,
    /// Capitals: `lower` or `keep`.
    #[arg(long, default_value = "lower", value_parser = named::<CaseRule>, conflicts_with = "input")]
    case: CaseRule,
    /// Punctuation: `keep`, or `drop` (a blank instead, but for apostrophes and hyphens within words).
    #[arg(long, default_value = "keep", value_parser = named::<PunctuationRule>, conflicts_with = "input")]
    punctuation: PunctuationRule,
    /// Digits: `keep`, or `zero` (each becomes 0).
    #[arg(long, default_value = "keep", value_parser = named::<DigitRule>, conflicts_with = "input")]
    digits: DigitRule,
    /// Blanks: `single` (one space for any run, none at the ends) or `keep`.
    #[arg(long, default_value = "single", value_parser = named::<BlankRule>, conflicts_with = "input")]
    blanks: BlankRule,
    /// The longest query to keep, characters. A question may have 2000.
    #[arg(long, value_name = "CHARACTERS", default_value_t = LONGEST, conflicts_with = "input")]
    longest_query: usize,
}

/// Prepares the logs; returns the report, the dataset's path and a notice about its lineage.
pub(super) fn prepare(
    all: &Prepare,
    folder: &Folder,
    now: OffsetDateTime,
) -> Result<(String, PathBuf, &'static str), DataError> {
    let log = &all.log;
    if log.label_column.is_some() && all.visibility != Reach::Public {
        let reason = "labels are read of public logs only: leave it out, or say --visibility public".to_owned();
        return Err(DataError::Argument { argument: "--label-column", reason });
    }
    let options = log.options(all, folder, now)?;
    let mut intake = all.intake(folder, now)?;
    let report = prepare::prepare_in_lineage(&options, intake.as_mut(), &Bar::default())?;
    Ok((report.to_string(), options.output, key_note(intake.as_ref())))
}

impl QueryLog {
    fn options(&self, all: &Prepare, folder: &Folder, now: OffsetDateTime) -> Result<PrepareOptions, DataError> {
        let reading = ReadOptions {
            format: self.format,
            delimiter: self.delimiter,
            header: self.header.clone(),
            columns: ColumnMap {
                text: self.text_column.clone(),
                user: self.user_column.clone(),
                count: self.count_column.clone(),
                label: self.label_column.clone(),
                subset: self.subset_column.clone(),
            },
            rows_are_lines: false,
        };
        let key = clock::entropy().map_err(DataError::Entropy)?;
        Ok(PrepareOptions {
            normalization: TextNormalization {
                form: self.form,
                case: self.case,
                punctuation: self.punctuation,
                digits: self.digits,
                blanks: self.blanks,
            },
            visibility: all.visibility.into(),
            longest: self.longest_query,
            test: self.test_subsets.clone(),
            train: self.train_subsets.clone(),
            hold_out: all.hold_out,
            replace: all.replace,
            created: dated(now)?,
            ..PrepareOptions::new(self.queries.clone(), reading, &all.place(folder)?, &all.name, key)
        })
    }
}

/// Parses a choice by its name in a dataset's description.
fn named<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|error| error.to_string())
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ if text == "\\t" => Ok(b'\t'),
        _ => Err(format!("{text:?} is not one ASCII character, as ; or \\t")),
    }
}
