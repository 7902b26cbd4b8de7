//! Tables of rows at the site: their sources, their stored form, and the stream of units that jobs read.
//!
//! A row enters through a [`source`], may receive columns that an encoder computes ([`encode`]), becomes integer codes in
//! the declared ranges ([`value`]), is sorted by its unit and by a keyed order within the unit ([`key`], [`sort`]), and is
//! stored ([`dataset`]). Rows that cannot be used are counted and left out ([`quarantine`]).
//!
//! Jobs read whole units: training reads one at a time ([`units`]), as numbers ([`rows`]); analyses read chunks of columns
//! ([`chunk`]) and sum the contributions of units ([`sums`]), which the job kind defines, see
//! [`undertone_api::job::analytics`]. Some units of a table become a table of their own for a rehearsal ([`subset`]). The
//! numbers of a report become a file ([`numbers`]). No fact about the rows is computed for others: the schema with its
//! ranges is declared by the steward.

pub mod add;
pub mod chunk;
pub mod dataset;
pub mod encode;
pub mod error;
pub mod key;
pub mod numbers;
mod part;
mod part_file;
pub mod quarantine;
pub mod rows;
pub mod sort;
pub mod source;
mod stream;
pub mod subset;
pub mod sums;
pub mod units;
pub mod value;
mod writer;
