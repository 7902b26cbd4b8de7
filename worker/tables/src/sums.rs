//! The sum of the contributions of all units of a table: in columns, on several threads, in integers.
//!
//! A table is read in slices of its parts (`stream.rs`). Each thread takes one slice after another, decodes it chunk by chunk
//! ([`UnitChunk`]), and adds the contributions of whole units to a sum of its own: a job's filters become truth values of
//! rows (`condition.rs`), its keys cells of rows (`groups.rs`), the limits on units a list of rows (`admission.rs`), and the
//! statistics integers (`aggregates.rs`, `keys.rs`). The sums of the threads are added at the end. Integers make the result
//! the same, bit for bit, whatever the slices, the threads and their order are.
//!
//! No unit is in two slices, and the counts of rows and units must be those of the description, so no unit counts twice.
//! The norm of each contribution is verified (`norms.rs`). The same threads hash the parts, each before it is decoded
//! (`tasks.rs`).
//!
//! Memory: for each thread a batch and the rows of one unit, in the columns of the job, and a vector.
//!
//! To sum something else, implement [`ContributionSum`], and compare it with its definition in `sums/tests`.

mod admission;
mod aggregates;
mod condition;
mod groups;
mod keys;
mod norms;
mod tasks;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use undertone_api::table::TableColumn;

use crate::chunk::UnitChunk;
use crate::dataset::{TableReader, UnverifiedTable};
use crate::error::TableError;
use crate::stream::UnitStream;

use tasks::{PassTask, PassTasks};

pub use aggregates::AggregateSum;
pub use keys::KeySum;

/// The most threads of a pass.
pub const MOST_THREADS: usize = 16;
/// The most units of a table: each moves a sum by at most 2²⁰, so that all of them move it by less than 2⁶³.
pub const MOST_UNITS: u64 = 1 << 42;
/// Slices of a part, whose rows are at most 4 million.
const SLICES: usize = 8;
/// The time between two questions whether the job goes on.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A sum of bounded contributions of units, in steps of the grid.
pub trait ContributionSum: Clone + Send {
    /// Adds the contribution of each unit of a chunk, which has the columns of the job.
    ///
    /// # Errors
    /// [`TableError::ExcessContribution`] if a contribution is longer than [`RADIUS`](undertone_api::job::analytics::RADIUS)
    /// steps. The sum must not be used then.
    fn add_units(&mut self, chunk: &UnitChunk) -> Result<(), TableError>;

    /// Returns the coordinates.
    fn steps(&self) -> &[i64];
}

/// Returns the sum of the contributions of all units of a table, in steps of the grid. `empty` is the sum of no unit,
/// and `columns` are those of the job. `check` is called at intervals, and its error ends the pass.
///
/// # Errors
/// [`TableError`] if the table declares a column otherwise than the job, has changed, or cannot be read; and the error of
/// `check`.
///
/// # Panics
/// If a thread panics.
pub fn sum_units<S: ContributionSum, E: From<TableError>>(
    table: &UnverifiedTable,
    columns: &[TableColumn],
    empty: &S,
    check: &dyn Fn() -> Result<(), E>,
) -> Result<Vec<i64>, E> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    sum_in_slices(table, columns, empty, (choose_threads(processors), SLICES), check)
}

/// Returns the number of threads on a machine with so many processors.
fn choose_threads(processors: usize) -> usize {
    processors.clamp(1, MOST_THREADS)
}

fn sum_in_slices<S: ContributionSum, E: From<TableError>>(
    table: &UnverifiedTable,
    columns: &[TableColumn],
    empty: &S,
    (threads, slices): (usize, usize),
    check: &dyn Fn() -> Result<(), E>,
) -> Result<Vec<i64>, E> {
    let table = table.reader();
    let columns = table.find_columns(columns)?;
    if table.meta().units > MOST_UNITS {
        return Err(TableError::TooManyUnits(table.meta().name.clone()).into());
    }
    let pass = TablePass { table, columns: &columns, slices, tasks: PassTasks::new(table.files().len(), slices) };
    let outcomes = pass.run(empty, threads, check)?;
    pass.merge(empty, outcomes).map_err(E::from)
}

/// A pass over a table that several threads share.
struct TablePass<'a> {
    table: &'a TableReader,
    /// The positions of the codes.
    columns: &'a [usize],
    /// Slices of a part.
    slices: usize,
    tasks: PassTasks,
}

/// The sum of one thread.
struct PartialSum<S> {
    sum: S,
    rows: u64,
    units: u64,
}

/// The end of a thread: its sum, its failure or its panic.
type ThreadOutcome<S> = std::thread::Result<Result<PartialSum<S>, TableError>>;

impl TablePass<'_> {
    /// Runs all tasks on threads, and returns the end of each.
    fn run<S: ContributionSum, E>(
        &self,
        empty: &S,
        threads: usize,
        check: &dyn Fn() -> Result<(), E>,
    ) -> Result<Vec<ThreadOutcome<S>>, E> {
        check()?;
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            for _ in 0..threads {
                let sender = sender.clone();
                let partial = PartialSum { sum: empty.clone(), rows: 0, units: 0 };
                scope.spawn(move || {
                    let outcome = catch_unwind(AssertUnwindSafe(|| self.run_tasks(partial)));
                    if !matches!(outcome, Ok(Ok(_))) {
                        self.tasks.stop();
                    }
                    // Without a receiver the pass has failed already.
                    drop(sender.send(outcome));
                });
            }
            drop(sender);
            self.wait(&receiver, check)
        })
    }

    /// Waits for all threads, and stops them when `check` fails.
    fn wait<S, E>(
        &self,
        receiver: &Receiver<ThreadOutcome<S>>,
        check: &dyn Fn() -> Result<(), E>,
    ) -> Result<Vec<ThreadOutcome<S>>, E> {
        let mut outcomes = Vec::new();
        loop {
            match receiver.recv_timeout(CHECK_INTERVAL) {
                Ok(outcome) => outcomes.push(outcome),
                Err(RecvTimeoutError::Timeout) => check().inspect_err(|_| self.tasks.stop())?,
                // The last thread has ended.
                Err(RecvTimeoutError::Disconnected) => return Ok(outcomes),
            }
        }
    }

    /// Runs the tasks of one thread.
    fn run_tasks<S: ContributionSum>(&self, mut partial: PartialSum<S>) -> Result<PartialSum<S>, TableError> {
        let mut chunk = UnitChunk::new(self.columns.len());
        while let Some(task) = self.tasks.take() {
            match task {
                PassTask::Verify(part) => {
                    self.table.files()[part].check()?;
                    self.tasks.release_slices(part);
                }
                PassTask::Sum { part, slice } => self.sum_slice((part, slice), &mut chunk, &mut partial)?,
            }
        }
        Ok(partial)
    }

    fn sum_slice<S: ContributionSum>(
        &self,
        (part, slice): (usize, usize),
        chunk: &mut UnitChunk,
        partial: &mut PartialSum<S>,
    ) -> Result<(), TableError> {
        let file = &self.table.files()[part];
        let Some(mut stream) = UnitStream::open(file, self.columns, slice, self.slices)? else { return Ok(()) };
        while !self.tasks.is_stopped() && stream.next_chunk(chunk)? {
            partial.rows += chunk.rows() as u64;
            partial.units += chunk.unit_count() as u64;
            if partial.units > self.table.meta().units {
                return Err(self.miscount());
            }
            partial.sum.add_units(chunk)?;
        }
        Ok(())
    }

    /// Adds the sums of the threads, and checks their counts.
    fn merge<S: ContributionSum>(&self, empty: &S, outcomes: Vec<ThreadOutcome<S>>) -> Result<Vec<i64>, TableError> {
        let partials = outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|panic| resume_unwind(panic)));
        let partials: Vec<PartialSum<S>> = partials.collect::<Result<_, _>>()?;
        let rows: u64 = partials.iter().map(|partial| partial.rows).sum();
        let units: u64 = partials.iter().map(|partial| partial.units).sum();
        if (rows, units) != (self.table.meta().rows, self.table.meta().units) {
            return Err(self.miscount());
        }
        let mut steps = empty.steps().to_vec();
        for partial in &partials {
            // No sum overflows: the units are at most 2⁴², and each has a norm of at most 2²⁰.
            steps.iter_mut().zip(partial.sum.steps()).for_each(|(own, other)| *own += other);
        }
        Ok(steps)
    }

    fn miscount(&self) -> TableError {
        self.table.contradict("its counts of rows and units are not those of its files").into()
    }
}

#[cfg(test)]
mod tests;
