//! Turns query logs into a dataset: reads, normalizes, hashes users, assigns subsets, and writes.
//!
//! Memory does not grow with the log. At regular intervals of rows the progress becomes durable: first the rows, then a
//! journal of their number. An interrupted preparation continues from there when it is started again with the same
//! options over the same files, and its dataset is the same as without the interruption. The result for a row depends
//! on that row and the options alone, except for the numbers of labels that no option declares, which only public logs
//! have. Unusable rows are left out and counted. The [`PrepareReport`] shows a few of them; it stays at the site, inside the dataset's folder.

use std::collections::HashMap;
use std::path::PathBuf;

use undertone_api::dataset::{DatasetContent, Visibility};

use super::dataset::part::PartWriter;
use super::dataset::user::UserHasher;
use super::dataset::{FORMAT, Meta, Reader, Subset, digest, read_meta};
use super::log::{self, LogError, LogField, LogPosition, NextRow, RawRow, RejectReason};
use undertone_worker_site::dataset_meta::{DatasetError, PreparationRecord};
use undertone_worker_site::lineage::{LineageError, LineageIntake};
use undertone_worker_site::normalize::{TextNormalizer, unicode};
use undertone_worker_site::progress::ProgressReporter;

mod journal;
mod judge;
mod options;
mod report;
mod work;

pub use options::{LONGEST, PrepareOptions};
pub use report::{LogFile, PrepareReport, RejectedRow, RejectedRows};

use journal::JournalState;
use judge::{RowVerdict, judge, rejected_excerpt};
use work::WorkFolder;

/// The longest label, characters: as long as a job's label may be.
const LONGEST_LABEL: usize = 60;
/// Rows between two progress updates.
const TELL: u64 = 1 << 12;

/// Why a preparation failed.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The output cannot be written.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The data are charged to the accounts of another dataset.
    #[error(transparent)]
    Lineage(Box<LineageError>),
    /// An invalid option.
    #[error("{option}: {reason}")]
    Option {
        /// The name of the option.
        option: &'static str,
        /// The fault and the remedy.
        reason: String,
    },
    /// Another process prepares the same dataset.
    #[error("another preparation is writing to {0}: wait until it is done")]
    Busy(PathBuf),
    /// The log changed during the preparation.
    #[error("a log changed while it was read: prepare a copy that no program writes to")]
    Changed,
    /// More labels than label numbers.
    #[error("more than {} different labels: is --label-column the right one?", u16::MAX)]
    Labels,
    /// Rows with an unclosed quote in a log that is not public. The following lines cannot be attributed to a user.
    #[error(
        "{rows} rows have quotes that do not close on their line, such as line {line} of {}: of a private log a row of CSV is a \
         line, because such a quote could take in rows of others. Write queries of several lines as JSON Lines or Parquet, or \
         without line breaks; mend or remove stray quotes",
        path.display()
    )]
    Lines {
        /// The number of rows.
        rows: u64,
        /// A log.
        path: PathBuf,
        /// A line of it.
        line: u64,
    },
    /// The new version would protect users by another column than the versions before it.
    #[error(
        "dataset `{name}` protects users by {before:?}, and what was spent on it was spent for these: keep --user-column \
         {before}"
    )]
    UserColumn {
        /// The dataset.
        name: String,
        /// The column of the existing version.
        before: String,
    },
    /// The log has rows, but none is usable.
    #[error("none of the {rows} rows of {} can be used; nothing was written ({summary})", inputs.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
    Nothing {
        /// The logs.
        inputs: Vec<PathBuf>,
        /// Their rows.
        rows: u64,
        /// The rejected rows by reason.
        summary: String,
    },
}

/// Prepares a dataset and reports the result; continues an interrupted preparation of the same dataset.
///
/// # Errors
/// [`PrepareError`]. In that case the output does not exist, and a hidden folder next to it keeps the progress.
pub fn prepare(options: &PrepareOptions, progress: &dyn ProgressReporter) -> Result<PrepareReport, PrepareError> {
    prepare_in_lineage(options, None, progress)
}

/// Prepares a dataset of a site like [`prepare`], and decides its lineage before it moves to its place.
///
/// # Errors
/// As [`prepare`]; [`PrepareError::Lineage`] when the data are charged to other accounts. Repeat the command with
/// `--continues` in that case; it continues from the end.
pub fn prepare_in_lineage(
    options: &PrepareOptions,
    mut intake: Option<&mut LineageIntake>,
    progress: &dyn ProgressReporter,
) -> Result<PrepareReport, PrepareError> {
    options.check()?;
    let rows_are_lines = options.visibility != Visibility::Public;
    let reading = log::ReadOptions { rows_are_lines, ..options.reading.clone() };
    let options = &PrepareOptions { reading, ..options.clone() };
    check_output(options)?;
    // Checks all inputs before the first row, so that a missing column in the last one is reported at once.
    for path in &options.inputs {
        log::open(path, &options.reading, LogPosition::default())?;
    }
    let work = WorkFolder::open(&options.output)?;
    // Checks again: a dataset that another preparation was replacing may be back in its place.
    check_output(options)?;
    let of = options.fingerprint()?;
    // The fingerprints must include the rows that are read.
    let saved_state =
        work.state(&of)?.filter(|_| intake.as_deref_mut().is_none_or(|intake| intake.resume(&work.fingerprints())));
    let state = saved_state.map_or_else(|| work.begin(&of, &options.labels), Ok)?;
    let resumed = state.tally.rows();
    let mut preparation = Preparation::new(options, &work, state, intake.as_deref_mut())?;
    preparation.read(progress)?;
    let mut state = preparation.state;
    if options.fingerprint()? != of {
        return Err(PrepareError::Changed);
    }
    if let Some((rows, first)) = state.tally.rejected_rows(RejectReason::Lines) {
        let path = options.inputs.get(first.file).cloned().unwrap_or_default();
        let line = first.line;
        work.forget()?;
        return Err(PrepareError::Lines { rows, path, line });
    }
    if state.parts.is_empty() {
        let inputs = options.inputs.clone();
        let rows = state.tally.rows();
        let summary = state.tally.summary();
        work.forget()?;
        return Err(PrepareError::Nothing { inputs, rows, summary });
    }
    state.complete = true;
    work.save(&state)?;
    if let Some(intake) = intake {
        let marker = intake.admit().map_err(|error| PrepareError::Lineage(Box::new(error)))?;
        work.mark(&marker)?;
    }
    let meta = meta(options, &state);
    let report = PrepareReport::new(options, &meta, state.tally, resumed);
    work.publish(&meta, &report, options.replace)?;
    // The new dataset must open: this reads it back once from disk.
    Reader::open(&options.output)?;
    Ok(report)
}

/// Checks that the output is free, or that it may be replaced and the new version protects the same users.
fn check_output(options: &PrepareOptions) -> Result<(), PrepareError> {
    if !options.replace && options.output.symlink_metadata().is_ok() {
        return Err(DatasetError::Exists(options.output.clone()).into());
    }
    match read_meta(&options.output).ok().filter(|_| options.replace) {
        Some(Meta { name, columns, .. }) if columns.user.is_some() && columns.user != options.reading.columns.user => {
            Err(PrepareError::UserColumn { name, before: columns.user.unwrap_or_default() })
        }
        _ => Ok(()),
    }
}

fn meta(options: &PrepareOptions, state: &JournalState) -> Meta {
    let columns = options.reading.columns.clone();
    // Without declared labels, the number of a label is its index among the labels in the order of the log.
    let is_counted = columns.label.is_some() && options.labels.is_empty();
    let labels = is_counted.then(|| "--label-column".to_owned());
    let preparation = PreparationRecord {
        across_units: labels.into_iter().collect(),
        across_records: options.across_records.map(str::to_owned).into_iter().collect(),
        ..PreparationRecord::default()
    };
    Meta {
        content: DatasetContent::Queries,
        format: FORMAT,
        name: options.name.clone(),
        train: state.counts(Subset::Train),
        test: state.counts(Subset::Test),
        labels: state.labels.clone(),
        units: preparation.query_units(columns.user.is_some()),
        preparation: Some(preparation),
        columns,
        normalization: options.normalization,
        unicode: unicode(),
        digest: digest(&state.parts),
        parts: state.parts.clone(),
        created: options.created.clone(),
    }
}

/// The state of reading rows from the logs and writing them to the parts.
struct Preparation<'a> {
    options: &'a PrepareOptions,
    work: &'a WorkFolder,
    state: JournalState,
    part: Option<PartWriter>,
    /// Rows read since the state was saved.
    unsaved: u64,
    normalizer: TextNormalizer,
    users: Option<UserHasher>,
    /// The user of the previous row: rows of a session are often adjacent.
    last_user: (String, u128),
    labels: HashMap<String, u16>,
    intake: Option<&'a mut LineageIntake>,
}

impl<'a> Preparation<'a> {
    fn new(
        options: &'a PrepareOptions,
        work: &'a WorkFolder,
        state: JournalState,
        intake: Option<&'a mut LineageIntake>,
    ) -> Result<Self, PrepareError> {
        let users = match options.reading.columns.user {
            Some(_) => Some(UserHasher::new(&work.key(options.key)?)),
            None => None,
        };
        let number = |(number, label): (usize, &String)| (label.clone(), number as u16);
        Ok(Self {
            options,
            work,
            labels: state.labels.iter().enumerate().map(number).collect(),
            state,
            part: None,
            unsaved: 0,
            normalizer: TextNormalizer::new(options.normalization),
            last_user: users.as_ref().map_or((String::new(), 0), |users| (String::new(), users.hash_id(""))),
            users,
            intake,
        })
    }

    /// Reads all remaining rows, and saves the progress.
    fn read(&mut self, progress: &dyn ProgressReporter) -> Result<(), PrepareError> {
        let mut lengths = Vec::new();
        for path in &self.options.inputs {
            lengths.push(path.metadata().map_err(LogError::io(path))?.len());
        }
        progress.start_bytes("Reading queries", lengths.iter().sum());
        let mut behind: u64 = lengths.iter().take(self.state.file).sum();
        let mut reported = 0;
        let mut raw = RawRow::default();
        while let Some(path) = self.options.inputs.get(self.state.file) {
            let mut source = log::open(path, &self.options.reading, self.state.place)?;
            if reported == 0 {
                reported = behind + source.bytes_read();
                progress.resume(reported);
            }
            loop {
                match source.next(&mut raw)? {
                    NextRow::End => break,
                    NextRow::Row => self.row(&raw, source.line())?,
                    NextRow::Bad(reason, excerpt) => self.state.bad(reason, source.line(), excerpt),
                }
                self.unsaved += 1;
                if self.unsaved.is_multiple_of(TELL) {
                    let now = behind + source.bytes_read();
                    progress.advance(now.saturating_sub(reported));
                    reported = now.max(reported);
                }
                if self.unsaved == self.options.stride {
                    self.state.place = source.place();
                    self.save()?;
                }
            }
            behind += lengths.get(self.state.file).copied().unwrap_or_default();
            self.state.file += 1;
            self.state.place = LogPosition::default();
        }
        self.save()?;
        progress.advance(behind.saturating_sub(reported));
        progress.finish();
        Ok(())
    }

    /// Makes the read rows durable, and then the journal that counts them.
    fn save(&mut self) -> Result<(), PrepareError> {
        if let Some(part) = self.part.take() {
            self.state.parts.push(part.finish()?);
        }
        if let Some(intake) = &mut self.intake {
            self.work.save_fingerprints(&intake.save())?;
        }
        self.work.save(&self.state)?;
        self.unsaved = 0;
        Ok(())
    }

    fn row(&mut self, raw: &RawRow, line: u64) -> Result<(), PrepareError> {
        let number = match self.label(raw)? {
            Ok(number) => number,
            Err(reason) => {
                self.state.bad(reason, line, log::excerpt(rejected_excerpt(raw, reason).as_bytes()));
                return Ok(());
            }
        };
        match judge(self.options, &mut self.normalizer, self.users.as_ref(), &mut self.last_user, raw, number) {
            RowVerdict::Outside => self.state.outside(),
            RowVerdict::Bad(reason) => {
                self.state.bad(reason, line, log::excerpt(rejected_excerpt(raw, reason).as_bytes()));
            }
            RowVerdict::Keep(row, subset, changed) => {
                let part = match &mut self.part {
                    Some(part) => part,
                    none => none.insert(self.work.part(self.state.parts.len(), &self.options.reading.columns)?),
                };
                part.push(row, subset)?;
                if let Some(intake) = &mut self.intake {
                    intake.add_row(row.text);
                    raw.get(LogField::User).into_iter().for_each(|user| intake.add_person(user));
                }
                self.state.keep(row, subset, changed);
            }
        }
        Ok(())
    }

    /// Returns the number of a row's label, and assigns one to a new label. Where the labels are declared, a row with
    /// another one has none.
    fn label(&mut self, raw: &RawRow) -> Result<Result<Option<u16>, RejectReason>, PrepareError> {
        let Some(label) = raw.get(LogField::Label).map(str::trim).filter(|label| !label.is_empty()) else {
            return Ok(Ok(None));
        };
        if let Some(number) = self.labels.get(label) {
            return Ok(Ok(Some(*number)));
        }
        if !self.options.labels.is_empty() {
            return Ok(Ok(None));
        }
        if label.chars().count() > LONGEST_LABEL || label.chars().any(char::is_control) {
            return Ok(Err(RejectReason::Label));
        }
        let number = u16::try_from(self.state.labels.len()).ok().filter(|number| *number < u16::MAX);
        let number = number.ok_or(PrepareError::Labels)?;
        self.labels.insert(label.to_owned(), number);
        self.state.labels.push(label.to_owned());
        Ok(Ok(Some(number)))
    }
}

#[cfg(test)]
mod tests;
