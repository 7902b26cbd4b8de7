//! The reasons why a table cannot be added or read. A message names columns, files and counts, and no value of a row.

use std::path::PathBuf;

use undertone_worker_site::dataset_meta::DatasetError;
use undertone_worker_site::folder::FolderError;
use undertone_worker_site::lineage::LineageError;

use crate::source::postgres::error::PostgresError;

/// The reason why a table cannot be added or read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A source cannot be read.
    #[error("cannot read {path}: check --input")]
    Input {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A source is not in its format.
    #[error("{path} is no {format} ({reason}): check --input and --format")]
    Format {
        /// The file.
        path: PathBuf,
        /// The expected format.
        format: &'static str,
        /// The fault.
        reason: String,
    },
    /// The format of a file is unknown.
    #[error("{0} has no known ending: name the format with --format csv, tsv or parquet")]
    Ending(PathBuf),
    /// A source lacks a declared column.
    #[error("{from} has no column `{column}`: mend the schema, or rename the column")]
    Column {
        /// The source.
        from: String,
        /// The declared column.
        column: String,
    },
    /// A source has two columns of one name.
    #[error("{from} has two columns `{column}`: rename one")]
    Twice {
        /// The source.
        from: String,
        /// The name.
        column: String,
    },
    /// A column of a source has a type that does not fit its declared kind.
    #[error("column `{column}` of {from} holds {found}, and the schema declares {declared}: mend one of them")]
    Kind {
        /// The source.
        from: String,
        /// The column.
        column: String,
        /// The type in the source.
        found: String,
        /// The declared kind.
        declared: &'static str,
    },
    /// The schema breaks a limit.
    #[error("--schema: {0}")]
    Schema(String),
    /// PostgreSQL refused, or its role may write.
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    /// The rows need more runs than a sort has.
    #[error("the table has more than {gib} GiB of encoded rows: add a part of its columns or rows")]
    TooLarge {
        /// The limit.
        gib: usize,
    },
    /// No row can be used.
    #[error("none of the {rows} rows can be used; nothing was written ({summary})")]
    Nothing {
        /// The number of rows.
        rows: u64,
        /// The rejected rows by reason.
        summary: String,
    },
    /// The new version would protect other units than the versions before it.
    #[error("table `{name}` protects units by {before}, and its budget was spent for these: keep `unit` in the schema")]
    UnitColumn {
        /// The table.
        name: String,
        /// The units of the existing version.
        before: String,
    },
    /// A job or a model names a column that the table does not have.
    #[error("table `{name}` has no column `{column}`, which the job or the model names: use its present schema")]
    NoColumn {
        /// The table.
        name: String,
        /// The column.
        column: String,
    },
    /// A job or a model names a column that the table declares otherwise.
    #[error(
        "table `{name}` declares column `{column}` with another kind or range than the job or the model: use its present \
         schema"
    )]
    OtherSchema {
        /// The table.
        name: String,
        /// The column.
        column: String,
    },
    /// The rows of a table have too many inputs for a training.
    #[error(
        "table `{name}` has {rows} rows of {inputs} inputs, more than 8 GiB of numbers: propose the job with fewer columns \
         or values, or add a part of the rows"
    )]
    TooManyNumbers {
        /// The table.
        name: String,
        /// Its rows.
        rows: u64,
        /// The inputs of a row.
        inputs: u64,
    },
    /// A unit adds more to a vector than its sensitivity admits.
    #[error(
        "a unit adds more than the sensitivity of the job, which is a defect of this program: nothing was released; \
         report it"
    )]
    ExcessContribution,
    /// A table has too many units for sums of 64 bits.
    #[error("table `{0}` has more than 2^42 units: add a part of them")]
    TooManyUnits(String),
    /// The rows are charged to the accounts of another dataset.
    #[error(transparent)]
    Lineage(Box<LineageError>),
    /// The dataset cannot be written or read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The site's folder cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
}
