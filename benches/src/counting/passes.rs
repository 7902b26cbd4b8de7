//! The measured passes, each in a process of its own and over the same stream.

use std::convert::Infallible;
use std::error::Error;
use std::hint::black_box;
use std::path::Path;

use datasketches::countmin::CountMinSketch;
use datasketches::frequencies::{ErrorType, FrequentItemsSketch};
use serde_json::{Value, json};
use undertone_privacy::PrivacyUnit;
use undertone_worker::config::queries::Queries;
use undertone_worker::dp::randomness::{Purpose, Randomness};
use undertone_worker::queries::bench;
use undertone_worker::queries::count::{CandidateFile, CountingEngine, EmbeddedEngine};
use undertone_worker::queries::dataset::Row;
use undertone_worker::queries::gate::Gate;
use undertone_worker::queries::sketch::{CountMin, Nominator, SketchKey, TableSize, UpdateRule};

use super::stream::QueryStream;
use super::{MEMORY_MIB, THRESHOLD};

/// The stream as a file, in the folder of a size.
pub(super) const FILE: &str = "rows.parquet";
/// The number of rows of the compared tables.
const HASHES: u32 = 4;

/// One pass over the stream. They run in this order: the file is written before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamPass {
    /// Generates and drops the rows: a part of every other time.
    Nothing,
    /// Writes the file for the passes that read one.
    Write,
    /// The gate as in a job, on all rows (β = 1): exact counting must yield the same.
    Gate,
    /// The gate as in a job, on a quarter of the rows.
    Sampled,
    /// The first pass of the gate alone.
    Nominate,
    /// The product's count-min with conservative update, and Apache's: tables of the same size.
    CountMin,
    /// See [`StreamPass::CountMin`].
    ApacheCountMin,
    /// Apache's frequent items (Misra-Gries).
    ApacheFrequent,
    /// Exact counts of every row, by the engine alone.
    Exact,
}

impl StreamPass {
    pub(super) const ALL: [Self; 9] = [
        Self::Nothing,
        Self::Write,
        Self::Gate,
        Self::Sampled,
        Self::Nominate,
        Self::CountMin,
        Self::ApacheCountMin,
        Self::ApacheFrequent,
        Self::Exact,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "the stream alone",
            Self::Write => "written to a file",
            Self::Gate => "gate, all rows: nominate and count exactly",
            Self::Sampled => "gate, a quarter sampled: nominate and count exactly",
            Self::Nominate => "nominator alone",
            Self::CountMin => "count-min, conservative",
            Self::ApacheCountMin => "count-min, Apache DataSketches (Rust)",
            Self::ApacheFrequent => "frequent items, Apache DataSketches (Rust)",
            Self::Exact => "exact counts of the file, DataFusion",
        }
    }

    /// Runs the pass over a stream of so many rows.
    pub(super) fn run(self, rows: u64, folder: &Path) -> Result<Value, Box<dyn Error>> {
        let mut stream = QueryStream::new(rows);
        // As many columns as the nominator uses for this k, so that all tables have the same size.
        let columns = u32::try_from((4 * rows / u64::from(THRESHOLD)).max(1 << 10))?;
        Ok(match self {
            Self::Nothing => {
                let mut bytes = 0;
                while let Some(text) = stream.next() {
                    bytes += black_box(text).len();
                }
                json!({ "bytes_of_text": bytes })
            }
            Self::Write => {
                let path = folder.join(FILE);
                let mut file = CandidateFile::create(&path)?;
                while let Some(text) = stream.next() {
                    file.push(text, 1)?;
                }
                file.finish()?;
                json!({ "file_mebibytes": std::fs::metadata(path)?.len() >> 20 })
            }
            Self::Gate => gate(stream, rows, 1.0, folder)?,
            Self::Sampled => gate(stream, rows, 0.25, folder)?,
            Self::Nominate => {
                let mut nominator = Nominator::new(THRESHOLD, rows, (MEMORY_MIB as usize) << 18, SketchKey::fresh())?;
                while let Some(text) = stream.next() {
                    nominator.add(text, 1);
                }
                json!({ "names_the_first": nominator.names(QueryStream::new(rows).next().unwrap_or_default()) })
            }
            Self::CountMin => {
                let mut sketch =
                    CountMin::new(TableSize::new(HASHES, columns)?, UpdateRule::Conservative, SketchKey::fresh());
                while let Some(text) = stream.next() {
                    sketch.add(text, 1);
                }
                json!({ "columns": columns, "bytes_of_a_cell": 8, "total": sketch.total() })
            }
            Self::ApacheCountMin => {
                let mut sketch = CountMinSketch::<u64>::new(HASHES as u8, columns)?;
                while let Some(text) = stream.next() {
                    sketch.update(text);
                }
                json!({ "columns": columns, "bytes_of_a_cell": 8, "total": sketch.total_weight() })
            }
            Self::ApacheFrequent => {
                // The smallest map with an error below half of k, within the memory limit.
                let size = (2 * rows / u64::from(THRESHOLD)).next_power_of_two().min(1 << 22) as usize;
                let mut sketch = FrequentItemsSketch::<String>::new(size)?;
                while let Some(text) = stream.next() {
                    sketch.update_ref(text);
                }
                let certain =
                    sketch.frequent_items_with_threshold(ErrorType::NoFalsePositives, u64::from(THRESHOLD) - 1);
                json!({ "map": size, "error_at_most": sketch.maximum_error(), "certain": certain.len() })
            }
            Self::Exact => {
                let queries = Queries { memory_mib: MEMORY_MIB, ..Queries::default() };
                let mut counts = EmbeddedEngine::new(&queries, folder)?.count(&folder.join(FILE), THRESHOLD.into())?;
                let (mut survivors, mut occurrences) = (0_u64, 0_u64);
                for counted in counts.by_ref() {
                    survivors += 1;
                    occurrences += counted?.1;
                }
                json!({ "survivors": survivors, "occurrences": occurrences, "spilled_mebibytes": counts.spilled() >> 20 })
            }
        })
    }
}

/// Runs the gate, with its own sampling, over the stream.
fn gate(mut stream: QueryStream, rows: u64, rate: f64, folder: &Path) -> Result<Value, Box<dyn Error>> {
    let settings = serde_json::from_value(json!({ "sampling_rate": rate, "threshold": THRESHOLD, "epsilon": 1.0 }))?;
    let queries = Queries { memory_mib: MEMORY_MIB, ..Queries::default() };
    let rows_of_stream = std::iter::from_fn(|| {
        let text = stream.next()?.to_owned();
        Some(Ok::<_, Infallible>(Row { text, user: None, count: 1, label: None }))
    });
    let survivors = Gate::new(settings, PrivacyUnit::Record)?.survivors(
        rows_of_stream,
        rows,
        &queries,
        folder,
        Randomness::from_os(Purpose::Rows),
    )?;
    let (number, occurrences) = bench::sums(&survivors);
    // A sample has other survivors than the whole.
    Ok(if rate >= 1.0 {
        json!({ "survivors": number, "occurrences": occurrences })
    } else {
        json!({ "sampled_survivors": number, "sampled_occurrences": occurrences })
    })
}
