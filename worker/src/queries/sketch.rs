//! Sketches: how often, and how many different, roughly, in little memory (`privacy.md`, 7).
//!
//! | sketch | says | errs | merges |
//! |---|---|---|---|
//! | [`Distinct`] (`HyperLogLog`, Apache DataSketches) | how many different texts | both ways | with the same key |
//! | [`CountMin`] | how often a text | only upwards | with the same key and size |
//! | [`CountMin`], conservative | how often a text, closer | only upwards | never: its state depends on the order |
//! | count-mean-min of either ([`CountMin::mean_min`]) | how often, on average | both ways | as the table under it |
//! | [`Nominator`] | which texts *may* occur k times | only too many | never |
//!
//! Estimates are for the site's own report, for planning and for comparison. They decide nothing: a release must depend on exact
//! counts, because an estimate of one text depends on the rows of others. The gate uses [`Nominator`] alone, and only to leave out
//! what cannot have k occurrences; so what it releases is the same for every outcome of every hash.
//!
//! Every sketch hashes with a secret [`Key`]: with a known hash anybody who can write to a log can make texts collide at will.

mod count_min;
mod distinct;
mod key;
mod nominator;
mod size;
mod table;
#[cfg(test)]
mod tests;

pub use count_min::{Background, CountMin, Update};
pub use distinct::Distinct;
pub use key::{Key, Places};
pub use nominator::Nominator;
pub use size::Size;

/// Why there is no such sketch, or why two are not one.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SketchError {
    /// An error bound that no sketch has.
    #[error("{name} must be {range}, not {value}")]
    Bound {
        /// Of what.
        name: &'static str,
        /// What it may be.
        range: &'static str,
        /// What was asked.
        value: f64,
    },
    /// More memory than there should be.
    #[error("{columns} columns of {rows} rows are more than a sketch has, {MOST_CELLS} cells: allow a larger error")]
    Size {
        /// Cells of a row.
        columns: u64,
        /// Rows.
        rows: u32,
    },
    /// Two sketches whose hashes have nothing in common.
    #[error("sketches with different keys cannot be merged: their hashes have nothing in common")]
    Keys,
    /// Two sketches of different sizes.
    #[error("sketches of different sizes cannot be merged")]
    Sizes,
    /// A conservative sketch depends on the order of its rows.
    #[error(
        "conservative sketches cannot be merged: what they hold depends on the order in which rows came; add the rows to one"
    )]
    Conservative,
}

/// Most cells of a table, 2³⁰.
pub const MOST_CELLS: u64 = 1 << 30;
