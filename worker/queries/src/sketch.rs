//! Sketches: approximate frequencies and numbers of different texts, in little memory (`privacy.md`, 7).
//!
//! | sketch | estimates | error | merges |
//! |---|---|---|---|
//! | [`DistinctCounter`] (`HyperLogLog`, Apache DataSketches) | number of different texts | both ways | with the same key |
//! | [`CountMin`] | frequency of a text | upwards only | with the same key and size |
//! | [`CountMin`], conservative | frequency of a text, closer | upwards only | never: its state depends on the order |
//! | count-mean-min of either ([`CountMin::mean_min`]) | frequency of a text, on average | both ways | like the table under it |
//! | [`Nominator`] | texts that *may* occur k times | too many only | never |
//!
//! Estimates are for the site's own report, for planning and for comparison. They decide nothing: a release must depend
//! on exact counts, because an estimate of one text depends on the rows of others. The gate uses [`Nominator`] alone,
//! and only to leave out texts that cannot have k occurrences, so its output is the same for every outcome of every
//! hash.
//!
//! Every sketch hashes with a secret [`SketchKey`]: with a known hash, any author of log rows could make texts collide.

mod count_min;
mod distinct;
mod key;
mod nominator;
mod size;
mod table;
#[cfg(test)]
mod tests;

pub use count_min::{CountMin, MeanBackground, UpdateRule};
pub use distinct::DistinctCounter;
pub use key::{CellColumns, SketchKey};
pub use nominator::Nominator;
pub use size::TableSize;

/// Why a sketch cannot be made, or two sketches cannot be merged.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SketchError {
    /// An error bound that no sketch has.
    #[error("{name} must be {range}, not {value}")]
    Bound {
        /// The name of the bound.
        name: &'static str,
        /// The range of the bound.
        range: &'static str,
        /// The requested value.
        value: f64,
    },
    /// More cells than a sketch may have.
    #[error("{columns} columns of {rows} rows are more than a sketch has, {MOST_CELLS} cells: allow a larger error")]
    Size {
        /// Cells of a row.
        columns: u64,
        /// Rows.
        rows: u32,
    },
    /// The sketches have different keys.
    #[error("sketches with different keys cannot be merged: their hashes have nothing in common")]
    Keys,
    /// Two sketches of different sizes.
    #[error("sketches of different sizes cannot be merged")]
    Sizes,
    /// A conservative sketch depends on the order of its rows.
    #[error(
        "conservative sketches cannot be merged: their state depends on the order of the rows; add all rows to one sketch"
    )]
    Conservative,
}

/// Most cells of a table, 2³⁰.
pub const MOST_CELLS: u64 = 1 << 30;
