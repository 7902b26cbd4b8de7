//! Turns query logs into a dataset: reads, normalizes, hashes users, sets subsets apart, and writes.
//!
//! Memory does not grow with the log. Every so many rows what is done becomes durable, first the rows, then a journal of
//! how far they go; a preparation that was broken off anywhere goes on from there when it is started again with the same
//! options over the same files, and ends with the dataset it would have ended with. What becomes of a row depends on that
//! row and the options alone, but for the numbers of labels, which are of public logs. A row that cannot be used is left out, counted, and a few of them are shown in the [`Report`],
//! which stays at the site inside the dataset's folder.

use std::collections::HashMap;
use std::path::PathBuf;

use undertone_api::dataset::{Content, Visibility};

use super::dataset::part::PartWriter;
use super::dataset::user::Users;
use super::dataset::{FORMAT, Meta, Reader, Subset, digest, read_meta};
use super::log::{self, Field, LogError, Next, Place, Raw, Reason};
use super::normalize::{Normalizer, unicode};
use crate::site::lineage::{LineageError, LineageIntake};
use crate::speech::dataset::{DatasetError, PreparationRecord};
use crate::speech::progress::Progress;

mod journal;
mod judge;
mod options;
mod report;
mod work;

pub use options::{LONGEST, Options};
pub use report::{LogFile, Malformed, Report, Sample};

use journal::State;
use judge::{Verdict, judge, shown};
use work::Work;

/// The longest label, characters: as long as a job's label may be.
const LONGEST_LABEL: usize = 60;
/// Rows between two tellings of progress.
const TELL: u64 = 1 << 12;

/// Why nothing was prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The logs.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The output.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Data that are charged to the accounts of another dataset.
    #[error(transparent)]
    Lineage(Box<LineageError>),
    /// An option that cannot be.
    #[error("{option}: {reason}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What it should be.
        reason: String,
    },
    /// Somebody else prepares it.
    #[error("another preparation is writing to {0}: wait until it is done")]
    Busy(PathBuf),
    /// A log that is still written to.
    #[error("a log changed while it was read: prepare a copy that nobody writes to")]
    Changed,
    /// More labels than numbers for them.
    #[error("more than {} different labels: is --label-column the right one?", u16::MAX)]
    Labels,
    /// Rows of a log that is not public, where it cannot be told whose the lines that follow are.
    #[error(
        "{rows} rows have quotes that do not close on their line, such as line {line} of {}: of a private log a row of CSV is a \
         line, because such a quote could take in rows of others. Write queries of several lines as JSON Lines or Parquet, or \
         without line breaks; mend or remove stray quotes",
        path.display()
    )]
    Lines {
        /// How many.
        rows: u64,
        /// A log.
        path: PathBuf,
        /// A line of it.
        line: u64,
    },
    /// The users of a line of versions would be others.
    #[error(
        "dataset `{name}` protects users by {before:?}, and what was spent on it was spent for these: keep --user-column \
         {before}"
    )]
    UserColumn {
        /// The dataset.
        name: String,
        /// The column it has.
        before: String,
    },
    /// Rows there are, but none that can be used.
    #[error("none of the {rows} rows of {} can be used; nothing was written ({summary})", inputs.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
    Nothing {
        /// The logs.
        inputs: Vec<PathBuf>,
        /// Their rows.
        rows: u64,
        /// How many were left out why.
        summary: String,
    },
}

/// Prepares a dataset and tells what was found; goes on where an earlier preparation of the same was broken off.
///
/// # Errors
/// [`PrepareError`]; nothing is then at the output. What was done by then is kept in a hidden folder beside it.
pub fn prepare(options: &Options, progress: &dyn Progress) -> Result<Report, PrepareError> {
    prepare_in_lineage(options, None, progress)
}

/// As [`prepare`], for a dataset of a site: its lineage is decided before it has its place.
///
/// # Errors
/// As [`prepare`]; [`PrepareError::Lineage`] when the data are charged to other accounts: it may be given again with `--continues`, and
/// goes on from the end.
pub fn prepare_in_lineage(
    options: &Options,
    mut intake: Option<&mut LineageIntake>,
    progress: &dyn Progress,
) -> Result<Report, PrepareError> {
    options.check()?;
    let rows_are_lines = options.visibility != Visibility::Public;
    let reading = log::Reading { rows_are_lines, ..options.reading.clone() };
    let options = &Options { reading, ..options.clone() };
    check_output(options)?;
    // All of them before the first row: a column that the last one lacks is told now.
    for path in &options.inputs {
        log::open(path, &options.reading, Place::default())?;
    }
    let work = Work::open(&options.output)?;
    // Again: a dataset that was making room may be back in its place.
    check_output(options)?;
    let of = options.fingerprint()?;
    // What was read must be among the fingerprints too.
    let known =
        work.state(&of)?.filter(|_| intake.as_deref_mut().is_none_or(|intake| intake.resume(&work.fingerprints())));
    let state = known.map_or_else(|| work.begin(&of), Ok)?;
    let resumed = state.tally.rows();
    let mut preparation = Preparation::new(options, &work, state, intake.as_deref_mut())?;
    preparation.read(progress)?;
    let mut state = preparation.state;
    if options.fingerprint()? != of {
        return Err(PrepareError::Changed);
    }
    if let Some((rows, first)) = state.tally.left_out(Reason::Lines) {
        let path = options.inputs.get(first.file).cloned().unwrap_or_default();
        let line = first.line;
        work.forget()?;
        return Err(PrepareError::Lines { rows, path, line });
    }
    if state.parts.is_empty() {
        let (inputs, rows, summary) = (options.inputs.clone(), state.tally.rows(), state.tally.summary());
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
    let report = Report::new(options, &meta, state.tally, resumed);
    work.publish(&meta, &report, options.replace)?;
    // What was just written must open: this reads it back once, from the disk's point of view.
    Reader::open(&options.output)?;
    Ok(report)
}

/// That nothing is at the output, or that it may be replaced and the next one keeps protecting the users it has.
fn check_output(options: &Options) -> Result<(), PrepareError> {
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

fn meta(options: &Options, state: &State) -> Meta {
    let columns = options.reading.columns.clone();
    // The number of a label is its place among those that were read before.
    let labels = columns.label.is_some().then(|| "--label-column".to_owned());
    let preparation = PreparationRecord { across_units: labels.into_iter().collect(), ..PreparationRecord::default() };
    Meta {
        content: Content::Queries,
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

/// Rows on their way from the logs to the parts.
struct Preparation<'a> {
    options: &'a Options,
    work: &'a Work,
    state: State,
    part: Option<PartWriter>,
    /// Rows read since the state was saved.
    unsaved: u64,
    normalizer: Normalizer,
    users: Option<Users>,
    /// The user of the row before: rows of a session often follow each other.
    last_user: (String, u128),
    labels: HashMap<String, u16>,
    intake: Option<&'a mut LineageIntake>,
}

impl<'a> Preparation<'a> {
    fn new(
        options: &'a Options,
        work: &'a Work,
        state: State,
        intake: Option<&'a mut LineageIntake>,
    ) -> Result<Self, PrepareError> {
        let users = match options.reading.columns.user {
            Some(_) => Some(Users::new(&work.key(options.key)?)),
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
            normalizer: Normalizer::new(options.normalization),
            last_user: users.as_ref().map_or((String::new(), 0), |users| (String::new(), users.of(""))),
            users,
            intake,
        })
    }

    /// Reads all that is left, and saves what is done.
    fn read(&mut self, progress: &dyn Progress) -> Result<(), PrepareError> {
        let mut lengths = Vec::new();
        for path in &self.options.inputs {
            lengths.push(path.metadata().map_err(LogError::io(path))?.len());
        }
        progress.start_bytes("Reading queries", lengths.iter().sum());
        let mut behind: u64 = lengths.iter().take(self.state.file).sum();
        let (mut told, mut raw) = (0, Raw::default());
        while let Some(path) = self.options.inputs.get(self.state.file) {
            let mut source = log::open(path, &self.options.reading, self.state.place)?;
            if told == 0 {
                told = behind + source.done();
                progress.resume(told);
            }
            loop {
                match source.next(&mut raw)? {
                    Next::End => break,
                    Next::Row => self.row(&raw, source.line())?,
                    Next::Bad(reason, excerpt) => self.state.bad(reason, source.line(), excerpt),
                }
                self.unsaved += 1;
                if self.unsaved.is_multiple_of(TELL) {
                    let now = behind + source.done();
                    progress.advance(now.saturating_sub(told));
                    told = now.max(told);
                }
                if self.unsaved == self.options.stride {
                    self.state.place = source.place();
                    self.save()?;
                }
            }
            behind += lengths.get(self.state.file).copied().unwrap_or_default();
            self.state.file += 1;
            self.state.place = Place::default();
        }
        self.save()?;
        progress.advance(behind.saturating_sub(told));
        progress.finish();
        Ok(())
    }

    /// Makes durable what was read, and that it was.
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

    fn row(&mut self, raw: &Raw, line: u64) -> Result<(), PrepareError> {
        let number = match self.label(raw)? {
            Ok(number) => number,
            Err(reason) => {
                self.state.bad(reason, line, log::excerpt(shown(raw, reason).as_bytes()));
                return Ok(());
            }
        };
        match judge(self.options, &mut self.normalizer, self.users.as_ref(), &mut self.last_user, raw, number) {
            Verdict::Outside => self.state.outside(),
            Verdict::Bad(reason) => self.state.bad(reason, line, log::excerpt(shown(raw, reason).as_bytes())),
            Verdict::Keep(row, subset, changed) => {
                let part = match &mut self.part {
                    Some(part) => part,
                    none => none.insert(self.work.part(self.state.parts.len(), &self.options.reading.columns)?),
                };
                part.push(row, subset)?;
                if let Some(intake) = &mut self.intake {
                    intake.add_row(row.text);
                    raw.get(Field::User).into_iter().for_each(|user| intake.add_person(user));
                }
                self.state.keep(row, subset, changed);
            }
        }
        Ok(())
    }

    /// The number of a row's label, which it has from now on if it is new.
    fn label(&mut self, raw: &Raw) -> Result<Result<Option<u16>, Reason>, PrepareError> {
        let Some(label) = raw.get(Field::Label).map(str::trim).filter(|label| !label.is_empty()) else {
            return Ok(Ok(None));
        };
        if let Some(number) = self.labels.get(label) {
            return Ok(Ok(Some(*number)));
        }
        if label.chars().count() > LONGEST_LABEL || label.chars().any(char::is_control) {
            return Ok(Err(Reason::Label));
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
