//! The statistics of a cell, each a vector of integer sums over rows.

use super::query::AggregateMeasure;
use super::resolve::CodeBounds;
use super::resolve_error::ResolveError;
use crate::table::{ColumnKind, TableColumn};

/// The greatest value of a sum's term before the weights are chosen.
const FINEST_TERM: u64 = 1 << 20;
/// The least greatest value of a term: a coarser one would round each value to less than 5 bits.
const COARSEST_TERM: u64 = 16;
/// The range of the levels of a tree.
pub const LEVELS: (u32, u32) = (2, 12);

/// A statistic of the rows of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockStatistic {
    /// The number of rows.
    Rows,
    /// The number of units.
    Units,
    /// The sum of (code − centre)/2^shift, rounded to nearest.
    Sum {
        /// The code that adds nothing.
        centre: i64,
        /// The binary digits that are rounded away.
        shift: u32,
        /// X: the greatest magnitude of a term.
        most: u64,
        /// The greatest magnitude of code − centre.
        span: u64,
    },
    /// The sum of (code − centre)²/2^shift, rounded to nearest.
    Squares {
        /// The code that adds nothing.
        centre: i64,
        /// The binary digits that are rounded away.
        shift: u32,
        /// The greatest term.
        most: u64,
        /// The greatest magnitude of code − centre.
        span: u64,
    },
    /// The number of rows in each bin; rows beyond the bins add nothing.
    Bins(CodeBounds),
    /// The number of rows in each node of a binary tree: the levels 1 to `levels`, level ℓ with 2^ℓ nodes.
    Tree {
        /// The first code of the range.
        least: i64,
        /// The codes of a leaf.
        leaf: u64,
        /// L: the levels below the root.
        levels: u32,
    },
}

impl BlockStatistic {
    /// Returns the coordinates of a cell.
    pub const fn width(&self) -> usize {
        match self {
            Self::Rows | Self::Units | Self::Sum { .. } | Self::Squares { .. } => 1,
            Self::Bins(bins) => bins.len(),
            Self::Tree { levels, .. } => (2 << *levels) - 2,
        }
    }

    /// Returns whether a unit adds at most 1 to a cell, whatever the number of its rows.
    pub const fn counts_units(&self) -> bool {
        matches!(self, Self::Units)
    }

    /// Returns r², the greatest squared norm that a row adds.
    pub fn squared_row_norm(&self) -> u128 {
        match self {
            Self::Rows | Self::Units | Self::Bins(_) => 1,
            Self::Sum { most, .. } | Self::Squares { most, .. } => u128::from(*most).pow(2),
            Self::Tree { levels, .. } => u128::from(*levels),
        }
    }

    /// Returns the statistic with one binary digit less; `None` if it cannot be coarser.
    pub(super) fn coarsen(&self) -> Option<Self> {
        let next = match self {
            Self::Sum { centre, shift, span, .. } => Self::sum(*centre, *span, shift + 1),
            Self::Squares { centre, shift, span, .. } => Self::squares(*centre, *span, shift + 1),
            _ => return None,
        };
        matches!(next, Self::Sum { most, .. } | Self::Squares { most, .. } if most >= COARSEST_TERM).then_some(next)
    }

    fn sum(centre: i64, span: u64, shift: u32) -> Self {
        let most = shift_nearest(u128::from(span), shift).max(1);
        Self::Sum { centre, shift, most, span }
    }

    fn squares(centre: i64, span: u64, shift: u32) -> Self {
        let most = shift_nearest(u128::from(span).pow(2), shift).max(1);
        Self::Squares { centre, shift, most, span }
    }

    /// Calls `visit` with the place within the cell and the integer of each entry of a row. Codes outside the declared
    /// range count as its nearest end, so that no row adds more than the sensitivity admits.
    pub fn visit_entries(&self, code: i64, is_first: bool, mut visit: impl FnMut(usize, i64)) {
        match self {
            Self::Rows => visit(0, 1),
            Self::Units if is_first => visit(0, 1),
            Self::Units => {}
            Self::Sum { centre, shift, most, .. } => {
                let distance = code.abs_diff(*centre);
                let term = shift_nearest(u128::from(distance), *shift).min(*most).cast_signed();
                visit(0, if code < *centre { -term } else { term });
            }
            Self::Squares { centre, shift, most, .. } => {
                let square = u128::from(code.abs_diff(*centre)).pow(2);
                visit(0, shift_nearest(square, *shift).min(*most).cast_signed());
            }
            Self::Bins(bins) => {
                if let Some(bin) = bins.find_range(code) {
                    visit(bin, 1);
                }
            }
            Self::Tree { least, leaf, levels } => {
                let last = (1_u64 << levels) - 1;
                let own = if code < *least { 0 } else { (code.abs_diff(*least) / leaf).min(last) };
                for level in 1..=*levels {
                    let node = own >> (levels - level);
                    visit((1 << level) - 2 + node as usize, 1);
                }
            }
        }
    }
}

/// Returns value/2^shift rounded to nearest, halves up; at most 2⁶³ − 1.
fn shift_nearest(value: u128, shift: u32) -> u64 {
    let half = (1_u128 << shift) >> 1;
    u64::try_from(value.saturating_add(half) >> shift).unwrap_or(u64::MAX).min(i64::MAX as u64)
}

/// Returns the least shift at which the greatest term is at most 2²⁰.
fn least_shift(greatest: u128) -> u32 {
    let mut shift = 0;
    while shift_nearest(greatest, shift) > FINEST_TERM {
        shift += 1;
    }
    shift
}

/// Returns the statistics of an aggregate: the column, the statistic, and its part of the aggregate's share in sixths.
///
/// The parts balance the errors of a mean half-way between centre and end: the error of the sum counts twice that of the
/// number of rows, so that it has twice the share; the squares of a variance have half of it.
pub(super) fn plan_statistics(
    measure: &AggregateMeasure,
    columns: &[TableColumn],
) -> Result<Vec<(Option<usize>, BlockStatistic, u128)>, ResolveError> {
    let number = |column: &str, use_of| {
        let (place, kind) = ResolveError::find(columns, column)?;
        if kind.is_number() {
            return Ok((place, kind));
        }
        let needed = "booleans, integers or reals";
        Err(ResolveError::Kind { column: column.to_owned(), kind: kind.label(), use_of, needed })
    };
    Ok(match measure {
        AggregateMeasure::Count { column } => {
            let column = column.as_ref().map(|column| ResolveError::find(columns, column).map(|(place, _)| place));
            vec![(column.transpose()?, BlockStatistic::Rows, 6)]
        }
        AggregateMeasure::CountUnits => vec![(None, BlockStatistic::Units, 6)],
        AggregateMeasure::Sum { column } => {
            let (place, kind) = number(column, "a sum")?;
            let (least, most) = kind.code_range();
            let span = least.unsigned_abs().max(most.unsigned_abs());
            vec![(Some(place), BlockStatistic::sum(0, span, least_shift(u128::from(span))), 6)]
        }
        AggregateMeasure::Mean { column } => {
            let (place, kind) = number(column, "a mean")?;
            vec![(Some(place), BlockStatistic::Rows, 2), (Some(place), centred_sum(kind), 4)]
        }
        AggregateMeasure::Variance { column } => {
            let (place, kind) = number(column, "a variance")?;
            let (centre, span) = centre_of(kind);
            let squares = BlockStatistic::squares(centre, span, least_shift(u128::from(span).pow(2)));
            vec![(Some(place), BlockStatistic::Rows, 1), (Some(place), centred_sum(kind), 2), (Some(place), squares, 3)]
        }
        AggregateMeasure::Histogram { column, edges } => {
            let bins = if edges.is_empty() {
                CodeBounds::from_values(column, columns, "a histogram without edges")?
            } else {
                CodeBounds::from_edges(column, edges, columns, "a histogram with edges")?
            };
            vec![(Some(bins.column), BlockStatistic::Bins(bins), 6)]
        }
        AggregateMeasure::Quantiles { column, levels, .. } => {
            let (place, kind) = ResolveError::find(columns, column)?;
            if matches!(kind, ColumnKind::Boolean | ColumnKind::Category { .. }) {
                let (use_of, needed) = ("quantiles", "integers, reals or dates");
                return Err(ResolveError::Kind { column: column.clone(), kind: kind.label(), use_of, needed });
            }
            vec![(Some(place), plan_tree(kind, *levels), 6)]
        }
    })
}

fn centred_sum(kind: &ColumnKind) -> BlockStatistic {
    let (centre, span) = centre_of(kind);
    BlockStatistic::sum(centre, span, least_shift(u128::from(span)))
}

/// Returns the middle of the range and the greatest distance from it, in codes.
fn centre_of(kind: &ColumnKind) -> (i64, u64) {
    let (least, most) = kind.code_range();
    let centre = least + (most - least) / 2;
    (centre, most.abs_diff(centre).max(least.abs_diff(centre)))
}

/// Returns a tree over the range, with fewer levels where the range has fewer codes.
fn plan_tree(kind: &ColumnKind, levels: u32) -> BlockStatistic {
    let (least, most) = kind.code_range();
    let codes = most.abs_diff(least).saturating_add(1);
    let enough = codes.next_power_of_two().trailing_zeros().max(1);
    let levels = levels.clamp(1, LEVELS.1).min(enough);
    BlockStatistic::Tree { least, leaf: codes.div_ceil(1 << levels), levels }
}
