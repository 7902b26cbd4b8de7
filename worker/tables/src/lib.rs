//! Tables of rows at the site: their sources, their stored form, and the stream of units that jobs read.
//!
//! A row enters through a [`source`], may receive columns that an encoder computes ([`encode`]), becomes integer codes in
//! the declared ranges ([`value`]), is sorted by its unit and by a keyed order within the unit ([`key`], [`sort`]), and is
//! stored ([`dataset`]). Rows that cannot be used are counted and left out ([`quarantine`]). Jobs read one unit at a time
//! ([`units`]); what a unit contributes is defined by the job kind, see [`undertone_api::job::analytics`]; training reads
//! them as numbers ([`rows`]). Some units of a table become a table of their own for a rehearsal ([`subset`]). The numbers
//! of a report become a file ([`numbers`]). No fact about the rows is computed for others: the schema with its ranges is
//! declared by the steward.

pub mod add;
pub mod dataset;
pub mod encode;
pub mod error;
pub mod key;
pub mod numbers;
mod part;
pub mod quarantine;
pub mod rows;
pub mod sort;
pub mod source;
pub mod subset;
pub mod units;
pub mod value;
mod writer;
