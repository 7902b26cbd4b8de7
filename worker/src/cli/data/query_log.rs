//! `data prepare --queries`: creates a dataset of this site from query logs.

use std::path::PathBuf;

use clap::Args;
use serde::de::DeserializeOwned;
use time::OffsetDateTime;

use super::prepare::{PrepareCommand, VisibilityArgument, format_date};
use super::{DataError, TerminalProgress, key_notice};
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

/// The options for query logs; none of them applies to recordings.
#[derive(Debug, Args)]
#[command(next_help_heading = "Query logs")]
pub(super) struct QueryLogArguments {
    /// Query logs instead of recordings: CSV or TSV with a header, JSON Lines, or Parquet, by file extension.
    ///
    /// In private CSV each row is one line: a row with an unclosed quote could absorb the rows of other users, so the log is
    /// refused. Write queries of several lines as JSON Lines or Parquet.
    ///
    /// After an interruption, repeat the command to continue. Unusable rows are counted, and a few examples are listed in the
    /// dataset's report.json, which stays at the site.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = RECORDINGS)]
    queries: Vec<PathBuf>,
    /// The format of the logs, if the file extension does not state it: `csv`, `tsv`, `jsonl` or `parquet`.
    #[arg(long, value_parser = parse_choice::<LogFormat>, conflicts_with = "input")]
    format: Option<LogFormat>,
    /// The separator between the fields of CSV.
    #[arg(long, value_name = "CHARACTER", value_parser = parse_delimiter, conflicts_with = "input")]
    delimiter: Option<u8>,
    /// The column names of CSV without a header line.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', conflicts_with = "input")]
    header: Option<Vec<String>>,
    /// The column that holds the query.
    #[arg(long, value_name = "NAME", default_value = "text", conflicts_with = "input")]
    text_column: String,
    /// The column with the user of a query (a user, a patient, a session), for jobs that protect users. The dataset stores only
    /// a keyed hash. A row without a user is left out.
    #[arg(long, value_name = "NAME", conflicts_with = "input")]
    user_column: Option<String>,
    /// The column with the number of occurrences of a row's query; without it, each row is one occurrence.
    #[arg(long, value_name = "NAME", conflicts_with = "input")]
    count_column: Option<String>,
    /// The column with the query's label, which may be empty: for the golden set and the tests of a job. Data that are not
    /// public need --labels with it.
    #[arg(long, value_name = "NAME", conflicts_with = "input")]
    label_column: Option<String>,
    /// The labels of --label-column, at most 200, stated before the rows are read. A row with another label has none.
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', requires = "label_column")]
    labels: Vec<String>,
    /// The column with the subset of a row.
    #[arg(long, value_name = "NAME", conflicts_with = "input")]
    subset_column: Option<String>,
    /// A value of --subset-column whose rows are held out for tests; may be repeated.
    #[arg(long = "test-subset", value_name = "VALUE", requires = "subset_column")]
    test_subsets: Vec<String>,
    /// A value of --subset-column whose rows are for training; may be repeated. Rows of other subsets are then left out.
    #[arg(long = "train-subset", value_name = "VALUE", requires = "subset_column")]
    train_subsets: Vec<String>,
    /// Unicode normalization of queries: `nfc`, `nfkc` (wide and circled characters become plain ones) or `keep`.
    #[arg(long, default_value = "nfc", value_parser = parse_choice::<UnicodeForm>, conflicts_with = "input")]
    form: UnicodeForm,
    /// Capital letters: `lower` or `keep`.
    #[arg(long, default_value = "lower", value_parser = parse_choice::<CaseRule>, conflicts_with = "input")]
    case: CaseRule,
    /// Punctuation: `keep`, or `drop` (replaced by a blank, except apostrophes and hyphens within words).
    #[arg(long, default_value = "keep", value_parser = parse_choice::<PunctuationRule>, conflicts_with = "input")]
    punctuation: PunctuationRule,
    /// Digits: `keep`, or `zero` (each becomes 0).
    #[arg(long, default_value = "keep", value_parser = parse_choice::<DigitRule>, conflicts_with = "input")]
    digits: DigitRule,
    /// Blanks: `single` (one space for any run, none at the ends) or `keep`.
    #[arg(long, default_value = "single", value_parser = parse_choice::<BlankRule>, conflicts_with = "input")]
    blanks: BlankRule,
    /// The longest query to keep, in characters. A question can have 2000.
    #[arg(long, value_name = "CHARACTERS", default_value_t = LONGEST, conflicts_with = "input")]
    longest_query: usize,
}

/// Prepares the logs; returns the report, the dataset's path and a notice about its lineage.
pub(super) fn prepare(
    command: &PrepareCommand,
    folder: &Folder,
    now: OffsetDateTime,
) -> Result<(String, PathBuf, &'static str), DataError> {
    let log = &command.log;
    if log.label_column.is_some() && log.labels.is_empty() && command.visibility != VisibilityArgument::Public {
        let reason = "the labels of a log that is not public would number each other: state them with --labels, omit the \
                      column, or add --visibility public";
        return Err(DataError::Argument { argument: "--label-column", reason: reason.to_owned() });
    }
    let options = log.options(command, folder, now)?;
    let mut intake = command.open_intake(folder, now)?;
    let report = prepare::prepare_in_lineage(&options, intake.as_mut(), &TerminalProgress::default())?;
    Ok((report.to_string(), options.output, key_notice(intake.as_ref())))
}

impl QueryLogArguments {
    fn options(
        &self,
        command: &PrepareCommand,
        folder: &Folder,
        now: OffsetDateTime,
    ) -> Result<PrepareOptions, DataError> {
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
            visibility: command.visibility.into(),
            longest: self.longest_query,
            labels: self.labels.clone(),
            test: self.test_subsets.clone(),
            train: self.train_subsets.clone(),
            hold_out: command.hold_out,
            replace: command.replace,
            created: format_date(now)?,
            ..PrepareOptions::new(self.queries.clone(), reading, &command.dataset_folder(folder)?, &command.name, key)
        })
    }
}

/// Parses a choice by its name in a dataset's description.
fn parse_choice<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|error| error.to_string())
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ if text == "\\t" => Ok(b'\t'),
        _ => Err(format!("{text:?} is not one ASCII character, such as ; or \\t")),
    }
}
